//! A client of memcached, redis and MariaDB that measures response times without coordinated omission.
//!
//! A client that sends its next request when the last one is answered does not send while the server stands still, and so
//! leaves out just the requests that would have waited. This one sends by a clock: request k of a connection is due at
//! k times the interval, and its response time counts from then, whether or not the connection was free. Requests that were
//! due and could not even be sent by the end count with the time that they had waited by then. (Gil Tene's wrk2 does the same.)

mod mysql;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// What the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's text protocol.
    Memcached,
    /// RESP 2.
    Redis,
    /// MySQL's, as MariaDB speaks it: a table of keys and values, which the client makes.
    Mariadb,
}

/// What is asked of a server.
#[derive(Debug, Clone)]
pub struct Load {
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it listens.
    pub address: SocketAddr,
    /// Connections, each with a thread.
    pub connections: u32,
    /// Requests a second, of all connections together.
    pub rate: f64,
    /// How long requests are due.
    pub time: Duration,
    /// Requests that are due before this are made and not counted.
    pub warm_up: Duration,
    /// Different keys.
    pub keys: u32,
    /// Bytes of a value.
    pub value: usize,
    /// The share of requests that read; the others write.
    pub reads: f64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Answered {
    /// Nanoseconds from when a request was due.
    pub response: Histogram<u64>,
    /// Nanoseconds from when it was sent: what a client that waits for each answer would have reported.
    pub service: Histogram<u64>,
    /// Requests that were due and not sent by the end.
    pub unsent: u64,
    /// Answered requests a second.
    pub throughput: f64,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds and digits are in range")
}

/// How long a server may leave a request, or a part of it, where it is, beyond the time that requests are due.
const PATIENCE: Duration = Duration::from_secs(10);

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

struct Connection {
    reader: BufReader<TcpStream>,
    stream: TcpStream,
    protocol: Protocol,
    value: Vec<u8>,
    line: Vec<u8>,
}

impl Connection {
    fn open(load: &Load) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&load.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        let limit = Some(load.time + PATIENCE);
        stream.set_read_timeout(limit)?;
        stream.set_write_timeout(limit)?;
        let reader = BufReader::new(stream.try_clone()?);
        let value = vec![b'x'; load.value];
        let mut connection = Connection { reader, stream, protocol: load.protocol, value, line: Vec::new() };
        if load.protocol == Protocol::Mariadb {
            mysql::log_in(&mut connection.reader, &mut connection.stream, "root")?;
        }
        Ok(connection)
    }

    fn query(&mut self, text: &str) -> io::Result<usize> {
        mysql::query(&mut self.reader, &mut self.stream, text)
    }

    /// Makes the table of a database's requests.
    fn make_table(&mut self) -> io::Result<()> {
        self.query("CREATE DATABASE IF NOT EXISTS lockwork")?;
        self.query("CREATE TABLE IF NOT EXISTS lockwork.pairs (id INT PRIMARY KEY, value LONGTEXT)")?;
        Ok(())
    }

    fn line(&mut self) -> io::Result<&str> {
        self.line.clear();
        if self.reader.read_until(b'\n', &mut self.line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(std::str::from_utf8(&self.line).unwrap_or_default().trim_end())
    }

    /// Reads a value of so many bytes, and the line's end behind it.
    fn skip(&mut self, bytes: usize) -> io::Result<()> {
        let wanted = bytes as u64 + 2;
        let read = io::copy(&mut self.reader.by_ref().take(wanted), &mut io::sink())?;
        if read == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn request(&mut self, key: u32, read: bool) -> io::Result<()> {
        if self.protocol == Protocol::Mariadb {
            let text = match read {
                true => format!("SELECT value FROM lockwork.pairs WHERE id = {key}"),
                false => {
                    let value = String::from_utf8_lossy(&self.value);
                    format!("REPLACE INTO lockwork.pairs VALUES ({key}, '{value}')")
                }
            };
            return self.query(&text).map(|_| ());
        }
        let refused = |line: &str| Err(io::Error::other(format!("the server answered `{line}`")));
        let key = format!("lockwork{key}");
        let (length, bytes) = (key.len(), self.value.len());
        let mut message = match (self.protocol, read) {
            (Protocol::Memcached, true) => format!("get {key}\r\n"),
            (Protocol::Memcached, false) => format!("set {key} 0 0 {bytes}\r\n"),
            (Protocol::Redis, true) => format!("*2\r\n$3\r\nGET\r\n${length}\r\n{key}\r\n"),
            (Protocol::Redis, false) => format!("*3\r\n$3\r\nSET\r\n${length}\r\n{key}\r\n${bytes}\r\n"),
            (Protocol::Mariadb, _) => unreachable!("its requests are queries"),
        }
        .into_bytes();
        if !read {
            message.extend_from_slice(&self.value);
            message.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&message)?;
        let protocol = self.protocol;
        let line = self.line()?;
        match (protocol, read) {
            (Protocol::Memcached, false) if line == "STORED" => Ok(()),
            (Protocol::Redis, false) if line == "+OK" => Ok(()),
            (Protocol::Memcached, true) if line == "END" => Ok(()),
            (Protocol::Redis, true) if line == "$-1" => Ok(()),
            (Protocol::Memcached, true) if line.starts_with("VALUE ") => {
                let Some(bytes) = line.rsplit(' ').next().and_then(|bytes| bytes.parse().ok()) else {
                    return refused(line);
                };
                self.skip(bytes)?;
                match self.line()? {
                    "END" => Ok(()),
                    line => refused(line),
                }
            }
            (Protocol::Redis, true) if line.starts_with('$') => match line[1..].parse() {
                Ok(bytes) => self.skip(bytes),
                Err(_) => refused(line),
            },
            _ => refused(line),
        }
    }
}

/// The part of one connection.
fn drive(load: &Load, connection: u32, start: Instant) -> io::Result<Answered> {
    let mut client = Connection::open(load)?;
    let mut random = fastrand::Rng::with_seed(u64::from(connection));
    let interval = f64::from(load.connections) / load.rate;
    let offset = interval * f64::from(connection) / f64::from(load.connections);
    let (mut response, mut service, mut unsent) = (histogram(), histogram(), 0);
    let (end, first) = (start + load.time, start + load.warm_up);
    for request in 0_u32.. {
        let due = start + Duration::from_secs_f64(offset + interval * f64::from(request));
        if due >= end {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        let counts = due >= first;
        if sent >= end {
            if counts {
                unsent += 1;
                response.saturating_record(nanoseconds(sent - due));
            }
            continue;
        }
        let answer = client.request(random.u32(..load.keys), random.f64() < load.reads);
        answer.map_err(|error| match error.kind() {
            // What Linux says of a socket's time-out would be "Resource temporarily unavailable".
            io::ErrorKind::WouldBlock => io::Error::new(
                io::ErrorKind::TimedOut,
                "the server has left a request where it is for too long",
            ),
            _ => error,
        })?;
        if counts {
            response.saturating_record(nanoseconds(due.elapsed()));
            service.saturating_record(nanoseconds(sent.elapsed()));
        }
    }
    Ok(Answered { response, service, unsent, throughput: 0.0 })
}

impl Load {
    /// Asks, until the time is over.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, closes a connection, or refuses a request.
    ///
    /// # Panics
    ///
    /// If memory for the histograms cannot be had.
    pub fn run(&self) -> io::Result<Answered> {
        if self.protocol == Protocol::Mariadb {
            Connection::open(self)?.make_table()?;
        }
        // Connections are open before the first request is due.
        let start = Instant::now() + Duration::from_millis(50);
        let parts: Vec<io::Result<Answered>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.connections).map(|number| scope.spawn(move || drive(self, number, start))).collect();
            let broken = |_| Err(io::Error::other("a connection's thread panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(broken)).collect()
        });
        let seconds = (start.elapsed().saturating_sub(self.warm_up)).as_secs_f64();
        let mut all = Answered { response: histogram(), service: histogram(), unsent: 0, throughput: 0.0 };
        for part in parts {
            let part = part?;
            all.response.add(&part.response).expect("the same bounds");
            all.service.add(&part.service).expect("the same bounds");
            all.unsent += part.unsent;
        }
        all.throughput = all.service.len() as f64 / seconds.max(1e-9);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A memcached of one connection that knows no key and stands still once, at the hundredth request.
    fn server(stall: Duration) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut requests = 0;
            while let Some(Ok(line)) = lines.next() {
                requests += 1;
                if requests == 100 {
                    std::thread::sleep(stall);
                }
                let answer: &[u8] = if line.starts_with("set") {
                    lines.next();
                    b"STORED\r\n"
                } else {
                    b"VALUE k 0 3\r\nabc\r\nEND\r\n"
                };
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
        address
    }

    #[test]
    fn a_stall_is_in_the_response_time_of_every_request_that_was_due_meanwhile() {
        let load = Load {
            protocol: Protocol::Memcached,
            address: server(Duration::from_millis(400)),
            connections: 1,
            rate: 500.0,
            time: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            keys: 10,
            value: 3,
            reads: 0.5,
        };
        let answered = load.run().unwrap();
        // Of 500 requests 200 were due while the server stood still; but one of them waited for an answer.
        assert_eq!(answered.response.len(), answered.service.len() + answered.unsent);
        let share = |histogram: &Histogram<u64>| histogram.count_between(100_000_000, u64::MAX / 4);
        assert!(
            share(&answered.response) > 100,
            "{} of {}",
            share(&answered.response),
            answered.response.len()
        );
        assert!(share(&answered.service) < share(&answered.response) / 3);
    }

    #[test]
    fn no_server_holds_the_client_for_ever() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let load = Load {
            protocol: Protocol::Redis,
            address: listener.local_addr().unwrap(),
            connections: 1,
            rate: 10.0,
            time: Duration::from_secs(2),
            warm_up: Duration::ZERO,
            keys: 1,
            value: 1,
            reads: 1.0,
        };
        let stream = Connection::open(&load).unwrap().stream;
        let limit = Some(Duration::from_secs(12));
        assert_eq!((stream.read_timeout().unwrap(), stream.write_timeout().unwrap()), (limit, limit));
    }

    #[test]
    fn a_server_that_is_gone_is_an_error() {
        let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let time = Duration::from_millis(10);
        let load = Load {
            protocol: Protocol::Redis,
            address,
            connections: 2,
            rate: 10.0,
            time,
            warm_up: time,
            keys: 1,
            value: 1,
            reads: 1.0,
        };
        assert!(load.run().is_err());
    }
}
