//! The few instructions that the programs in the kernel are made of.

/// One instruction, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    code: u8,
    /// The destination in the lower half, the source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Registers: results; arguments, lost in calls; kept in calls; the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    Result = 0,
    Arg1 = 1,
    Arg2 = 2,
    Arg3 = 3,
    Arg4 = 4,
    Context = 6,
    Task = 7,
    Entry = 8,
    Board = 9,
    Frame = 10,
}
use Register::Result;

/// How wide an access is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Word = 0x00,
    Double = 0x18,
}

/// Functions of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    LookUp = 1,
    /// By its bare address.
    CurrentTask = 35,
    /// Zeroes what it cannot read.
    ReadKernel = 113,
    TaskStorage = 156,
    DeleteTaskStorage = 157,
    /// With its type.
    CurrentTaskTyped = 158,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// A program while it is being written.
#[derive(Default)]
pub(crate) struct Assembler {
    program: Vec<Instruction>,
    /// Where labels are.
    places: Vec<Option<usize>>,
    /// Jumps, and where they lead.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn emit(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) {
        self.program.push(Instruction { code, registers: from << 4 | to as u8, offset, immediate });
    }

    /// `to = from`
    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.emit(0xbf, to, from as u8, 0, 0);
    }

    /// `to = value`
    pub(crate) fn set(&mut self, to: Register, value: i32) {
        self.emit(0xb7, to, 0, 0, value);
    }

    /// `to = value`, of 64 bits
    pub(crate) fn set_wide(&mut self, to: Register, value: u64) {
        self.emit(0x18, to, 0, 0, value as i32);
        self.emit(0, Result, 0, 0, (value >> 32) as i32);
    }

    /// `to = map`
    pub(crate) fn set_map(&mut self, to: Register, map: i32) {
        const BY_DESCRIPTOR: u8 = 1;
        self.emit(0x18, to, BY_DESCRIPTOR, 0, map);
        self.emit(0, Result, 0, 0, 0);
    }

    /// `to = address of the first value of the map`, an array
    pub(crate) fn set_first_value(&mut self, to: Register, map: i32) {
        const FIRST_VALUE: u8 = 2;
        self.emit(0x18, to, FIRST_VALUE, 0, map);
        self.emit(0, Result, 0, 0, 0);
    }

    /// `to += value`
    pub(crate) fn add(&mut self, to: Register, value: i32) {
        self.emit(0x07, to, 0, 0, value);
    }

    /// `to += from`
    pub(crate) fn add_register(&mut self, to: Register, from: Register) {
        self.emit(0x0f, to, from as u8, 0, 0);
    }

    /// `to &= value`
    pub(crate) fn and(&mut self, to: Register, value: i32) {
        self.emit(0x57, to, 0, 0, value);
    }

    /// `to >>= bits`
    pub(crate) fn shift_right(&mut self, to: Register, bits: i32) {
        self.emit(0x77, to, 0, 0, bits);
    }

    /// `to >>= bits`
    pub(crate) fn shift_right_by(&mut self, to: Register, bits: Register) {
        self.emit(0x7f, to, bits as u8, 0, 0);
    }

    /// `to <<= bits`
    pub(crate) fn shift_left(&mut self, to: Register, bits: i32) {
        self.emit(0x67, to, 0, 0, bits);
    }

    /// `to |= from`
    pub(crate) fn or(&mut self, to: Register, from: Register) {
        self.emit(0x4f, to, from as u8, 0, 0);
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(0x61 | width as u8, to, from as u8, offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) {
        self.emit(0x63 | width as u8, to, from as u8, offset, 0);
    }

    /// `value = exchange(at, value)`, of 64 bits
    pub(crate) fn exchange(&mut self, at: Register, value: Register) {
        self.emit(0xdb, at, value as u8, 0, 0xe1);
    }

    /// `*at += value` atomically, of 64 bits
    pub(crate) fn add_to(&mut self, at: Register, value: Register) {
        self.emit(0xdb, at, value as u8, 0, 0);
    }

    pub(crate) fn call(&mut self, function: Function) {
        self.emit(0x85, Result, 0, 0, function as i32);
    }

    pub(crate) fn exit(&mut self) {
        self.emit(0x95, Result, 0, 0, 0);
    }

    pub(crate) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    pub(crate) fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.program.len());
    }

    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.emit(0x05, Result, 0, 0, 0);
    }

    /// Jumps if `register == value`.
    pub(crate) fn jump_if(&mut self, register: Register, value: i32, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.emit(0x15, register, 0, 0, value);
    }

    /// Jumps if `register != value`.
    pub(crate) fn jump_unless(&mut self, register: Register, value: i32, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.emit(0x55, register, 0, 0, value);
    }

    /// Jumps if `register == other`.
    pub(crate) fn jump_if_same(&mut self, register: Register, other: Register, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.emit(0x1d, register, other as u8, 0, 0);
    }

    /// Jumps if `register != other`.
    pub(crate) fn jump_if_differ(&mut self, register: Register, other: Register, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.emit(0x5d, register, other as u8, 0, 0);
    }

    /// The program, with the jumps filled in.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let Some(place) = self.places[label.0] else { unreachable!("a label that was never placed") };
            self.program[at].offset = (place - at - 1) as i16;
        }
        self.program
    }
}

#[cfg(test)]
mod tests {
    use super::Register::{Arg1, Entry};
    use super::*;

    #[test]
    fn jumps_lead_to_their_labels() {
        let mut a = Assembler::default();
        let end = a.label();
        a.jump_if(Arg1, 0, end);
        a.set(Result, 1);
        a.place(end);
        a.exit();
        let program = a.finish();
        assert_eq!(program[0].offset, 1);
        assert_eq!(program[0].registers, 1);
    }

    #[test]
    fn wide_values_take_two_instructions() {
        let mut a = Assembler::default();
        a.set_wide(Entry, 0x2_0000_0001);
        let program = a.finish();
        assert_eq!((program[0].immediate, program[1].immediate), (1, 2));
        assert_eq!(size_of::<Instruction>(), 8);
    }
}
