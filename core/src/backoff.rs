//! How long to wait before the next try.

use sha2::{Digest, Sha256};

/// The wait before try number `tries + 1`: `base_ms` doubled for each earlier try, at most `cap_ms`, less up to a
/// quarter that depends on `key` and `tries` alone, so that many objects that failed together do not return together
/// and a replay waits equally long.
pub fn delay_ms(key: &str, tries: u32, base_ms: u64, cap_ms: u64) -> u64 {
    let doubled = base_ms.saturating_mul(1u64.checked_shl(tries.min(63)).unwrap_or(u64::MAX)).min(cap_ms);
    let digest = Sha256::new().chain_update(key).chain_update(tries.to_be_bytes()).finalize();
    let draw = u64::from(u16::from_be_bytes([digest[0], digest[1]]));
    doubled - (doubled / 4).saturating_mul(draw) / u64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_lose_at_most_a_quarter() {
        for tries in 0..200 {
            let full = (1_000u64 << tries.min(20)).min(60_000);
            let wait = delay_ms("org/p/d/run/a0", tries, 1_000, 60_000);
            assert!(wait <= full && wait >= full - full / 4, "{tries}: {wait}");
        }
        assert_eq!(delay_ms("k", 3, 1_000, 60_000), delay_ms("k", 3, 1_000, 60_000));
        assert_eq!(delay_ms("k", u32::MAX, 0, 60_000), 0);
    }
}
