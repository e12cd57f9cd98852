//! Which faults a world has, and how often. Each kind is on or off by the seed, so that some worlds have one kind alone
//! and others all of them at once.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How often things go wrong, of a thousand; 0 is never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// F20: the API server refuses before the effect.
    pub api_refuses: u64,
    /// F21: the effect happened and an error is answered.
    pub api_ambiguous: u64,
    /// Requests to the API server take up to so many milliseconds.
    pub api_delay_ms: u64,
    /// F30: watches are cut and the past is forgotten, each so many seconds; 0 is never.
    pub watch_cut_every_s: u64,
    /// F15: requests to the manager are lost.
    pub request_lost: u64,
    /// F15: answers of the manager are lost after their effect.
    pub reply_lost: u64,
    /// F1: how many times the manager dies.
    pub crashes: u64,
    /// F9: of a thousand deaths, so many lose the power too.
    pub power_loss: u64,
    /// F11: writes of the disk fail.
    pub disk_write_errors: u64,
    /// F11: syncs of the disk fail.
    pub disk_sync_errors: u64,
    /// F11: how many times the disk is full for a while.
    pub disk_full: u64,
    /// F14: how many times the wall clock jumps.
    pub clock_jumps: u64,
    /// F32, F34: of a thousand Pods, so many meet trouble of the cluster's.
    pub pod_trouble: u64,
    /// F36: how many times a stranger deletes TaskActions and Pods.
    pub strangers: u64,
    /// The disk says that it has synced and has not: no manager can stand that, and the oracle has to notice (M5). Never
    /// on by a seed.
    pub lying_disk: bool,
}

impl Faults {
    /// The faults of a seed.
    pub fn of(rng: &Rng) -> Self {
        let mut rng = rng.child("faults");
        let mut on = |most: u64| {
            let on = rng.chance(500);
            // Small rates are as likely as large ones.
            let exponent = rng.below(u64::from(most.ilog2()) + 1);
            let rate = (1 << exponent).min(most);
            if on { rate } else { 0 }
        };
        Self {
            api_refuses: on(300),
            api_ambiguous: on(200),
            api_delay_ms: on(5_000),
            watch_cut_every_s: on(60),
            request_lost: on(300),
            reply_lost: on(300),
            crashes: on(8),
            power_loss: on(1_000),
            disk_write_errors: on(4),
            disk_sync_errors: on(8),
            disk_full: on(4),
            clock_jumps: on(8),
            pod_trouble: on(500),
            strangers: on(16),
            lying_disk: false,
        }
    }
}

/// Counts what has happened.
#[derive(Clone, Default)]
pub struct Fired(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Fired {
    /// It has happened once more.
    pub fn note(&self, what: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }

    /// All that has happened.
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
