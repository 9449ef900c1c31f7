//! CRC-32 (IEEE 802.3, reflected, polynomial 0xEDB88320), four bits at a time.
//!
//! The check value of the catalogue of parametrised CRC algorithms:
//!
//! ```
//! assert_eq!(wattgate_runtime::format::crc32(b"123456789"), 0xCBF4_3926);
//! ```

/// One entry for each value of four bits: 64 bytes of constants instead of 1 KiB.
#[rustfmt::skip]
const TABLE: [u32; 16] = [
    0x0000_0000, 0x1DB7_1064, 0x3B6E_20C8, 0x26D9_30AC,
    0x76DC_4190, 0x6B6B_51F4, 0x4DB2_6158, 0x5005_713C,
    0xEDB8_8320, 0xF00F_9344, 0xD6D6_A3E8, 0xCB61_B38C,
    0x9B64_C2B0, 0x86D3_D2D4, 0xA00A_E278, 0xBDBD_F21C,
];

/// A checksum that is computed piece by piece.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// The checksum of nothing.
    pub const fn new() -> Self {
        Self(!0)
    }

    /// The checksum of all bytes so far followed by `bytes`.
    #[must_use]
    #[inline(never)]
    pub fn update(self, bytes: &[u8]) -> Self {
        let step = |crc: u32, nibble: u32| {
            (crc >> 4) ^ TABLE.get(((crc ^ nibble) & 0xF) as usize).unwrap_or(&0)
        };
        Self(bytes.iter().fold(self.0, |crc, &byte| {
            let byte = u32::from(byte);
            step(step(crc, byte), byte >> 4)
        }))
    }

    /// The value as it is stored.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

/// The CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    Crc32::new().update(bytes).finish()
}
