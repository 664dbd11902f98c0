//! Named limits of what a peer can make this crate hold.

/// The longest record that is collected, in bytes; real ones have a few thousand. What is longer
/// ends the connection.
pub const RECORD_BYTES: usize = 1 << 20;

/// The longest telnet subnegotiation, in bytes; what is longer is cut there.
pub const SUBNEGOTIATION_BYTES: usize = 1024;

/// The largest screen, in positions: what 16-bit addresses reach.
pub const SCREEN_CELLS: usize = 65_535;

/// How many times one option may be turned on and off before it is answered no more, so that no
/// peer keeps two machines busy with each other.
pub const OPTION_CHANGES: u8 = 64;

/// How many LU names one connection tries, one after another.
pub const LU_NAMES: usize = 64;

/// Room for the list of code pages.
pub(crate) const CODE_PAGES_HELD: usize = 64;

/// The most parameters of a control sequence of a terminal in NVT mode.
pub(crate) const NVT_PARAMETERS: usize = 16;

/// The longest line of a trace, in bytes, that is looked at; a longer one is a comment.
pub const TRACE_LINE_BYTES: usize = 64 * 1024;
