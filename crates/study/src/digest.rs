//! A short name for bytes, the same with every version of Rust: FNV-1a (Fowler, Noll, Vo), 64 bits.

/// The digest of some bytes. What it names stays in databases and files, so it never changes; it resists no adversary.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(BASIS, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn digests_are_those_of_the_published_function() {
        // Of the authors' own test vectors.
        let expected =
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)];
        for (text, digest_of_it) in expected {
            assert_eq!(digest(text.as_bytes()), digest_of_it, "{text}");
        }
    }
}
