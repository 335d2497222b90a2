//! As much of the MySQL protocol as point queries need: MariaDB and MySQL, accounts without a password, text results.
//!
//! A packet is three bytes of length, a sequence number, and the payload. A result set is a count of columns, the columns, an end, the
//! rows, an end.

use std::io::{self, Read, Write};

/// Capabilities: the protocol since 4.1, its way of authentication, plug-ins for it.
const CAPABILITIES: u32 = 0x200 | 0x8000 | 0x8_0000;
const UTF8: u8 = 33;
const LONGEST_PACKET: u32 = 1 << 24;
const QUERY: u8 = 3;

/// The first byte of a payload.
const OK: u8 = 0;
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;

/// Beyond this a payload that begins as an end is a row.
const LONGEST_END: usize = 9;

fn packet(sequence: u8, payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(payload.len()).ok().filter(|length| *length < LONGEST_PACKET - 1);
    let length = length.ok_or_else(|| io::Error::other("a query of 16 MiB"))?.to_le_bytes();
    Ok([&length[..3], &[sequence], payload].concat())
}

/// Reads a packet: its sequence number and payload. An error that the server reports is an error.
fn receive(reader: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 4];
    reader.read_exact(&mut head)?;
    let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    reader.read_exact(&mut payload)?;
    if payload.first() == Some(&ERROR) {
        // A number of two bytes, a mark and a state of six bytes, the message.
        let message = String::from_utf8_lossy(payload.get(9..).unwrap_or_default()).into_owned();
        return Err(io::Error::other(format!("the server answered `{message}`")));
    }
    Ok((head[3], payload))
}

/// Greets the server as `user`, who has no password.
pub(super) fn log_in(reader: &mut impl Read, writer: &mut impl Write, user: &str) -> io::Result<()> {
    let (sequence, greeting) = receive(reader)?;
    if greeting.first() != Some(&10) {
        return Err(io::Error::other("this is no server of version 10 of the MySQL protocol"));
    }
    let mut answer = CAPABILITIES.to_le_bytes().to_vec();
    answer.extend(LONGEST_PACKET.to_le_bytes());
    answer.push(UTF8);
    answer.extend([0; 23]);
    answer.extend(user.bytes());
    // The end of the name, a password of no bytes, the plug-in.
    answer.extend(b"\0\0mysql_native_password\0");
    writer.write_all(&packet(sequence.wrapping_add(1), &answer)?)?;
    let (sequence, mut reply) = receive(reader)?;
    if reply.first() == Some(&END) {
        // Asked for another plug-in: no password looks the same in those that there are.
        writer.write_all(&packet(sequence.wrapping_add(1), &[])?)?;
        reply = receive(reader)?.1;
    }
    match reply.first() {
        Some(&OK) => Ok(()),
        _ => Err(io::Error::other(format!("the server does not let `{user}` in without a password"))),
    }
}

/// Makes a query and reads the whole answer; says how many rows that was.
pub(super) fn query(reader: &mut impl Read, writer: &mut impl Write, text: &str) -> io::Result<usize> {
    writer.write_all(&packet(0, &[&[QUERY][..], text.as_bytes()].concat())?)?;
    if receive(reader)?.1.first() == Some(&OK) {
        return Ok(0);
    }
    let (mut rows, mut ends) = (0, 0);
    while ends < 2 {
        let payload = receive(reader)?.1;
        if payload.first() == Some(&END) && payload.len() < LONGEST_END {
            ends += 1;
        } else if ends == 1 {
            rows += 1;
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(payloads: &[&[u8]]) -> Vec<u8> {
        payloads
            .iter()
            .enumerate()
            .flat_map(|(place, payload)| packet(place as u8, payload).unwrap())
            .collect()
    }

    #[test]
    fn a_user_without_a_password_gets_in_and_another_does_not() {
        let greeting: &[u8] = b"\n10.11.6-MariaDB\0salt and more";
        let log = |payloads: &[&[u8]]| {
            let mut sent = Vec::new();
            let said = log_in(&mut packets(payloads).as_slice(), &mut sent, "root");
            (said.map_err(|error| error.to_string()), sent)
        };
        let (said, sent) = log(&[greeting, b"\0\0\0"]);
        assert_eq!(said, Ok(()));
        assert_eq!((sent[3], &sent[36..41]), (1, &b"root\0"[..]));
        assert_eq!(log(&[greeting, b"\xfeclient_ed25519\0salt", b"\0\0\0"]).0, Ok(()));
        let (said, _) = log(&[greeting, b"\xff\x15\x04#28000Access denied for user"]);
        assert_eq!(said, Err("the server answered `Access denied for user`".to_owned()));
        assert!(log(&[b"SSH-2.0"]).0.unwrap_err().contains("MySQL"));
    }

    #[test]
    fn all_of_an_answer_is_read() {
        let end: &[u8] = b"\xfe\0\0\x02\0";
        let answer = packets(&[b"\x01", b"a column", end, b"\x03abc", b"\x03def", end, b"left"]);
        let mut reader = answer.as_slice();
        assert_eq!(query(&mut reader, &mut Vec::new(), "SELECT").unwrap(), 2);
        assert_eq!(receive(&mut reader).unwrap().1, b"left");
        assert_eq!(query(&mut packets(&[b"\0\x01\0"]).as_slice(), &mut Vec::new(), "REPLACE").unwrap(), 0);
        assert!(
            query(&mut packets(&[b"\xff\x15\x04#42S02no table"]).as_slice(), &mut Vec::new(), "X").is_err()
        );
        // A server that is gone in the middle.
        assert!(query(&mut packets(&[b"\x01", b"a column"]).as_slice(), &mut Vec::new(), "X").is_err());
    }
}
