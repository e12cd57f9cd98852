//! The real binary from outside: started as a process, driven over HTTP and gRPC, killed and started again.

mod client;
mod process;
mod runs;
mod starts;
