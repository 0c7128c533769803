//! CRC-32C checksums of rows, so that damage is detected when a row is read (P9, F18).

use crc32c::crc32c_append;

/// Checksum of a row. Each variable-length value is preceded by its length, so that moving a byte from one column to
/// the next changes the checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checksum(u32);

impl Checksum {
    /// Starts the checksum of a row of a table.
    pub(crate) fn of(table: &str) -> Self {
        Self(0).bytes(table.as_bytes())
    }

    /// Adds a number.
    #[must_use]
    pub(crate) fn number(self, number: i64) -> Self {
        Self(crc32c_append(self.0, &number.to_le_bytes()))
    }

    /// Adds bytes.
    #[must_use]
    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        let length = (bytes.len() as u64).to_le_bytes();
        Self(crc32c_append(crc32c_append(self.0, &length), bytes))
    }

    /// Returns the checksum as SQLite stores it.
    pub(crate) fn value(self) -> i64 {
        i64::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{HostRow, TurnRow, uri_hash};

    /// The definition of CRC-32C, bit by bit.
    fn reference(bytes: &[u8]) -> u32 {
        let mut crc = !0_u32;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                let carry = crc & 1;
                crc = (crc >> 1) ^ (0x82F6_3B78 * carry);
            }
        }
        !crc
    }

    #[test]
    fn crc32c_of_known_vectors() {
        // RFC 3720, B.4.
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, expected) in [
            (&b"123456789"[..], 0xE306_9283),
            (&[0; 32], 0x8A91_36AA),
            (&[0xFF; 32], 0x62A8_AB43),
            (&ascending, 0x46DD_794E),
            (&descending, 0x113F_DB5C),
            (b"", 0),
        ] {
            assert_eq!(crc32c_append(0, bytes), expected, "{bytes:?}");
            assert_eq!(reference(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn crc32c_in_pieces_equals_crc32c_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(3000).collect();
        for cut in (0..bytes.len()).step_by(7) {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(
                crc32c_append(crc32c_append(0, left), right),
                reference(&bytes),
                "cut {cut}"
            );
        }
    }

    /// These rows were written before the checksum came from a crate.
    #[test]
    fn checksums_of_stored_rows_stay_valid() {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        conn.execute_batch(include_str!("schema/1.sql")).unwrap();
        conn.execute_batch("INSERT INTO host VALUES (1, 70000, 12, 2, 0, 0, 1, 0, 751300944)")
            .unwrap();
        assert_eq!(HostRow::read(&conn).unwrap().sessions, 2);
        assert_eq!(TurnRow::body_check("t0", b"turn 0"), 525_706_051);
        assert_eq!(uri_hash("ahp-session:/a"), 2_116_148_761);
    }

    #[test]
    fn moving_a_byte_to_the_next_column_changes_the_checksum() {
        let row = |a: &[u8], b: &[u8]| Checksum::of("t").bytes(a).bytes(b).value();
        assert_ne!(row(b"ab", b"c"), row(b"a", b"bc"));
    }
}
