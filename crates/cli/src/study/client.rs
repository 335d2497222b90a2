//! `lockwork study client`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lockwork_study::{Load, Protocol};

use crate::error::Failure;
use crate::terminal;

/// `lockwork study client`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork study client memcached --port 11211 --rate 20000 --connections 16
  lockwork study client redis --port 6379 --reads 0.5 --seconds 30
  lockwork study client mariadb --port 3306 --rate 2000   a server with skip-grant-tables

Requests are due by a clock, and response times count from when a request was due: a server that
stands still shows in all requests that were due meanwhile. Times are in seconds. `service` is
what counts from when a request was sent.")]
pub(crate) struct ClientArgs {
    /// What the server speaks
    protocol: ProtocolArg,
    /// The server's address
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// The server's port
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// Connections, each with a thread
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Requests a second, all connections together
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How long requests are due
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Milliseconds at the beginning that do not count, fewer than those of --seconds
    #[arg(long, value_name = "MS", default_value_t = 200)]
    warm_up: u32,
    /// Different keys
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    keys: u32,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    value: u32,
    /// The share of requests that read
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = crate::sim::share)]
    reads: f64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProtocolArg {
    Memcached,
    Redis,
    /// MariaDB or MySQL: a table of keys and values in the database `lockwork`, which `root` makes without a password
    Mariadb,
}

/// Asks a server and prints how long it took to answer.
pub(super) fn client(args: &ClientArgs) -> Result<ExitCode, Failure> {
    if u64::from(args.warm_up) >= 1000 * u64::from(args.seconds) {
        return Err(Failure::usage(format!(
            "--warm-up {} is not below the {} s of --seconds, so that no request would count",
            args.warm_up, args.seconds
        )));
    }
    let load = Load {
        protocol: match args.protocol {
            ProtocolArg::Memcached => Protocol::Memcached,
            ProtocolArg::Redis => Protocol::Redis,
            ProtocolArg::Mariadb => Protocol::Mariadb,
        },
        address: SocketAddr::new(args.host, args.port),
        connections: args.connections,
        rate: f64::from(args.rate),
        time: Duration::from_secs(args.seconds.into()),
        warm_up: Duration::from_millis(args.warm_up.into()),
        keys: args.keys,
        value: args.value as usize,
        reads: args.reads,
    };
    let answered = load
        .run()
        .map_err(|error| Failure::with_status(1, format!("{} on {}: {error}", args.host, args.port)))?;
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let mut lines =
        vec![format!("throughput: {:.1}", answered.throughput), format!("unsent: {}", answered.unsent)];
    for (what, histogram) in [("", &answered.response), ("service ", &answered.service)] {
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
            lines.push(format!("{what}{name}: {:.6}", seconds(histogram.value_at_quantile(share))));
        }
    }
    terminal::print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
