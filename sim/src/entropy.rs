//! The two functions through which chance and time come into a process: `getrandom` and `clock_gettime`. They are
//! defined here, over libc's, and answer from the world that runs on the calling thread: random bytes from its seed
//! (they seed std's hash maps, tokio's `select!` and SQL's `random()`), monotonic clocks from tokio's paused clock, the wall
//! clock from the same with an offset that faults may change. A thread without a world gets the kernel's answers.
#![allow(unsafe_code, reason = "the functions have C's signatures")]

use crate::rng::Rng;
use std::cell::{Cell, RefCell};

/// Where the wall clock of every world begins: 2026-03-01T12:00:00Z.
pub const START_MS: i64 = 1_772_366_400_000;

thread_local! {
    static WORLD: RefCell<Option<Rng>> = const { RefCell::new(None) };
    static BEGAN: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
    static LAST_NS: Cell<u64> = const { Cell::new(0) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static SKEW_MS: Cell<i64> = const { Cell::new(0) };
}

/// Makes this thread's chance that of a seed. To be called before the thread does anything else.
pub fn enter(seed: u64) {
    WORLD.set(Some(Rng::new(seed).child("entropy")));
    fastrand::seed(seed);
}

/// Makes this thread's time that of the runtime that is current.
pub fn begin() {
    BEGAN.set(Some(tokio::time::Instant::now()));
}

/// Moves the wall clock of this world against its monotonic clock.
pub fn skew(ms: i64) {
    SKEW_MS.set(ms);
}

/// Nanoseconds since the world began.
pub fn elapsed_ns() -> u64 {
    if let Some(began) = BEGAN.get()
        && !INSIDE.replace(true)
    {
        if tokio::runtime::Handle::try_current().is_ok() {
            let ns = began.elapsed().as_nanos();
            LAST_NS.set(u64::try_from(ns).unwrap_or(u64::MAX).max(LAST_NS.get()));
        }
        INSIDE.set(false);
    }
    LAST_NS.get()
}

/// The wall clock of this world in milliseconds.
pub fn wall_ms() -> i64 {
    START_MS + i64::try_from(elapsed_ns() / 1_000_000).unwrap_or(i64::MAX / 2) + SKEW_MS.get()
}

/// As `getrandom(2)`.
///
/// # Safety
/// `buffer` has to have room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(
    buffer: *mut libc::c_void,
    len: libc::size_t,
    flags: libc::c_uint,
) -> libc::ssize_t {
    let filled = WORLD.try_with(|world| {
        let Ok(mut world) = world.try_borrow_mut() else { return false };
        let Some(rng) = world.as_mut() else { return false };
        // SAFETY: the caller promises that the buffer has this length.
        rng.fill(unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) });
        true
    });
    if filled == Ok(true) {
        return len as libc::ssize_t;
    }
    // SAFETY: the arguments are the caller's own.
    unsafe { libc::syscall(libc::SYS_getrandom, buffer, len, flags) as libc::ssize_t }
}

/// As `clock_gettime(2)`.
///
/// # Safety
/// `time` has to point to a `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    let simulated = BEGAN.try_with(Cell::get).ok().flatten().is_some();
    if !simulated {
        // SAFETY: the arguments are the caller's own.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int };
    }
    let (s, ns) = if clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_REALTIME_COARSE {
        let ms = wall_ms();
        (ms.div_euclid(1_000), ms.rem_euclid(1_000) * 1_000_000)
    } else {
        // A day, so that nothing subtracts below zero.
        let ns = 86_400_000_000_000 + elapsed_ns();
        ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64)
    };
    // SAFETY: the caller promises that the pointer is good.
    unsafe {
        (*time).tv_sec = s as _;
        (*time).tv_nsec = ns as _;
    }
    0
}
