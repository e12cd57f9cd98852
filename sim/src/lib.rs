//! The whole manager in a simulated world.
//!
//! Everything that runs is real: the store over turso, the executor over kube's client, the services over the Connect
//! runtime, and the embedded API server. What is simulated is what surrounds it: time, chance, the disk, the nodes, the
//! weather on the network, and the users. A world is a function of its seed; `COVERAGE.md` says what it does not reach.
#![warn(missing_docs)]

pub mod disk;
pub mod entropy;
pub mod faults;
mod kubelet;
mod oracle;
pub mod rng;
mod world;

pub use faults::Faults;
pub use world::{Options, Outcome, run};
