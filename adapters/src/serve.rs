//! Listening sockets and the HTTP connections on them.

use crate::config::Listen;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often an idle HTTP/2 connection is asked whether its peer is still there, and how long it may take to answer: a
/// peer that vanished without a word is noticed and its streams end (case 56).
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// The most streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_000;
/// How long to wait after a connection could not be accepted, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1024;

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    /// Where it listens; the port is the one that the system chose when 0 was asked for.
    pub address: SocketAddr,
    listener: TcpListener,
}

/// Listens on a configured address.
///
/// # Errors
/// A sentence that names the address, the key and what to do.
pub fn listen(listen: &Listen, loopback_only: bool) -> Result<Listener, String> {
    let mut last = format!("the host '{}' of {} has no address", listen.host, listen.port_key);
    for address in listen.addresses(loopback_only)? {
        match bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                last = format!(
                    "address already in use: {address} ({}); stop what listens there or choose another port",
                    listen.port_key
                );
            }
            Err(error) => last = format!("cannot listen on {address} ({}): {error}", listen.port_key),
        }
    }
    Err(last)
}

fn bind(address: SocketAddr) -> std::io::Result<Listener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for connections of the earlier process to time out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    Ok(Listener { address: listener.local_addr()?, listener })
}

/// Serves HTTP/1.1 and HTTP/2 with prior knowledge until `shutdown`, then lets open requests end.
pub async fn serve(listener: Listener, router: Router, connections_max: usize, shutdown: CancellationToken) {
    let permits = Arc::new(Semaphore::new(connections_max));
    let connections = TaskTracker::new();
    loop {
        let permit = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            permit = permits.clone().acquire_owned() => permit,
        };
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(stream, router.clone(), shutdown.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, address = %listener.address, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    // Small messages must not wait for each other.
    let _ = stream.set_nodelay(true);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .max_concurrent_streams(STREAMS_MAX);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
