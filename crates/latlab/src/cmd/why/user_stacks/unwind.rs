//! The return addresses of a stack, by the unwind tables of the files that are mapped.

use super::objects::Sections;
use latlab_sys::user_stacks::Sample;

pub use native::Unwinder;

/// Frames of a stack at most.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const FRAMES: usize = 128;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod native {
    use super::{FRAMES, Sample, Sections};
    use framehop::{CacheNative, MayAllocateDuringUnwind, Module, UnwindRegsNative};
    use framehop::{Unwinder as _, UnwinderNative};

    /// Finds the return addresses of a stack.
    #[derive(Default)]
    pub struct Unwinder {
        modules: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
        cache: CacheNative<MayAllocateDuringUnwind>,
    }

    impl Unwinder {
        pub fn add(&mut self, name: &str, (start, end, bias): (u64, u64, u64), s: Sections) {
            self.modules.add_module(Module::new(name.to_owned(), start..end, bias, s));
        }

        pub fn unwind(&mut self, sample: &Sample<'_>) -> Vec<u64> {
            let r = sample.registers;
            #[cfg(target_arch = "x86_64")]
            let registers = UnwindRegsNative::new(r.ip, r.sp, r.fp);
            #[cfg(target_arch = "aarch64")]
            let registers = {
                // Return addresses may be signed, in bits above those of any code.
                let highest = self.modules.max_known_code_address();
                let mask = framehop::aarch64::PtrAuthMask::from_max_known_address(highest);
                UnwindRegsNative::new_with_ptr_auth_mask(mask, r.lr, r.sp, r.fp)
            };
            let mut read = |address: u64| {
                let at = usize::try_from(address.wrapping_sub(r.sp)).map_err(|_| ())?;
                let end = at.checked_add(8).ok_or(())?;
                let bytes = sample.stack.get(at..end).ok_or(())?;
                bytes.try_into().map(u64::from_ne_bytes).map_err(|_| ())
            };
            let mut frames = self.modules.iter_frames(r.ip, registers, &mut self.cache, &mut read);
            let mut found = Vec::new();
            while let Ok(Some(frame)) = frames.next() {
                found.push(frame.address());
                if found.len() == FRAMES {
                    break;
                }
            }
            found
        }
    }
}

/// Of other processors the kernel's samples are not read: `latlab_sys::user_stacks`.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod native {
    use super::{Sample, Sections};

    #[derive(Default)]
    pub struct Unwinder;

    impl Unwinder {
        pub fn add(&mut self, _: &str, _: (u64, u64, u64), _: Sections) {}

        pub fn unwind(&mut self, sample: &Sample<'_>) -> Vec<u64> {
            vec![sample.registers.ip]
        }
    }
}
