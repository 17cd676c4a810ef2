//! Instruction sets: detection, dispatch, vector math.
