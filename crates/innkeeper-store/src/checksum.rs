//! CRC-32C checksums of rows, so that damage is detected when a row is read (P9, F18).

/// The polynomial of CRC-32C, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Eight bytes are taken at a time; `TABLES[n][b]` is the effect of byte `b` followed by `n` zeros.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[zeros - 1][byte];
            tables[zeros][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// Checksum of a row. Each variable-length value is preceded by its length, so that moving a byte from one column to
/// the next changes the checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checksum(u32);

impl Checksum {
    /// Starts the checksum of a row of a table.
    pub(crate) fn of(table: &str) -> Self {
        Self(!0).bytes(table.as_bytes())
    }

    /// Adds a number.
    #[must_use]
    pub(crate) fn number(self, number: i64) -> Self {
        Self(update(self.0, &number.to_le_bytes()))
    }

    /// Adds bytes.
    #[must_use]
    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        Self(update(update(self.0, &(bytes.len() as u64).to_le_bytes()), bytes))
    }

    /// Returns the checksum as SQLite stores it.
    pub(crate) fn value(self) -> i64 {
        i64::from(!self.0)
    }
}

fn update(mut crc: u32, bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
        crc = 0;
        for (position, table) in TABLES.iter().rev().enumerate() {
            crc ^= table[(word >> (8 * position)) as usize & 0xFF];
        }
    }
    for byte in rest {
        crc = (crc >> 8) ^ TABLES[0][(crc as u8 ^ byte) as usize];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_crc_32c_that_others_compute() {
        assert_eq!(!update(!0, b"123456789"), 0xE306_9283);
        assert_eq!(!update(!0, &[0; 32]), 0x8A91_36AA);
        assert_eq!(!update(!0, b""), 0);
    }

    #[test]
    fn a_byte_that_moves_to_the_next_column_is_noticed() {
        let row = |a: &[u8], b: &[u8]| Checksum::of("t").bytes(a).bytes(b).value();
        assert_ne!(row(b"ab", b"c"), row(b"a", b"bc"));
    }
}
