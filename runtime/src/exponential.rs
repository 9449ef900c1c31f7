//! The exponential that turns the network's logarithms into units, in integers: the same on every
//! target, and a few dozen instructions where floating point is done by software.

/// log₂ e in units of 2⁻³¹.
const LOG2_E: u64 = 3_098_164_009;

/// 2^f = Σ cᵢ·fⁱ for f in 0 … 1, in units of 2⁻³¹, found by a minimax fit with a greatest relative
/// error of 2.3·10⁻⁹. The sum is 2 at f = 1, and no coefficient is negative: both keep
/// the exponential monotone, whatever rounding does.
const POWER_OF_TWO: [u32; 7] = [
    2_147_483_648,
    1_488_521_918,
    515_888_952,
    119_151_310,
    20_783_483,
    2_671_659,
    466_326,
];

/// e^(value × scale), rounded up, within 1 … 2³² − 1. Never falls when `value` rises. The
/// relative error is below 2·10⁻⁸. `scale` is within 10⁻⁹ … 1.
// Once in an image: it is called for the points of a front only.
#[inline(never)]
pub fn exponential(value: i32, scale: f32) -> u32 {
    // scale = mantissa · 2^(exponent − 150)
    let bits = scale.to_bits();
    let (exponent, mantissa) = (bits >> 23, bits & 0x7F_FFFF | 0x80_0000);
    let factor = (u64::from(mantissa) * LOG2_E + (1 << 23)) >> 24;
    // The binary logarithm of the result, in units of 2⁻³⁰.
    let logarithm =
        (i64::from(value) * factor.cast_signed()) >> (127_u32.wrapping_sub(exponent) & 63);
    let fraction = u64::from((logarithm as u32) << 2);
    let [first @ .., last] = POWER_OF_TWO;
    let power = first.iter().rev().fold(last, |sum, coefficient| {
        coefficient + ((u64::from(sum) * fraction) >> 32) as u32
    });
    match logarithm >> 30 {
        ..0 => 1,
        whole @ 0..32 => {
            let shift = 31 - whole as u32;
            ((u64::from(power) + (1 << shift) - 1) >> shift) as u32
        }
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::exponential;

    #[test]
    fn is_near_that_of_f64() {
        for scale in [1e-9_f32, 3.3e-7, 1.234e-4, 0.01, 0.999_999_9, 1.0] {
            for part in 0..4_000 {
                let value = (22.18 / f64::from(scale) * f64::from(part) / 4_000.0).min(2e9) as i32;
                let exact = libm::exp(f64::from(value) * f64::from(scale));
                let (low, high) = (exact * (1.0 - 2e-8), exact * (1.0 + 2e-8));
                let found = f64::from(exponential(value, scale));
                assert!(
                    libm::ceil(low) <= found && found <= libm::ceil(high),
                    "{value} × {scale}: {found} for {exact}"
                );
            }
        }
    }

    #[test]
    fn never_falls() {
        for scale in [1e-9_f32, 2e-9, 1.1e-5, 0.007, 0.3, 1.0] {
            // Test around every power of two, where the polynomial restarts.
            for octave in 0..33 {
                let at = f64::from(octave) * core::f64::consts::LN_2 / f64::from(scale);
                let at = at.min(f64::from(i32::MAX - 2_000)) as i32;
                let mut last = 0;
                for value in at.saturating_sub(2_000)..at + 2_000 {
                    let next = exponential(value, scale);
                    assert!(last <= next, "{value} × {scale}");
                    last = next;
                }
            }
        }
    }

    #[test]
    fn stays_within_its_range() {
        assert_eq!(exponential(0, 1.0), 1);
        assert_eq!(exponential(-1, 1e-9), 1);
        assert_eq!(exponential(i32::MIN, 1.0), 1);
        assert_eq!(exponential(i32::MIN, 1e-9), 1);
        assert_eq!(exponential(1, 1e-9), 2, "rounded up");
        assert_eq!(exponential(1, 1.0), 3);
        assert_eq!(exponential(23, 1.0), u32::MAX);
        assert_eq!(exponential(i32::MAX, 1.0), u32::MAX);
    }
}
