//! Console and exit through semihosting.

pub fn write(byte: u8) {
    semihosting::sys::arm_compat::sys_writec(byte);
}

pub fn exit(success: bool) -> ! {
    semihosting::process::exit(i32::from(!success))
}

/// Any exception ends the image: the reset code refers to this function.
#[cfg(not(processor = "aarch64"))]
#[unsafe(no_mangle)]
extern "C" fn image_failed() -> ! {
    exit(false)
}
