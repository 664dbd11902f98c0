//! Programs that the server starts: by a small helper process, never by itself.
//!
//! What it guarantees:
//! 1. No shell, and no argument is ever split or interpreted: a program gets the list as given.
//! 2. Nothing runs that the operator of the machine did not allow ([`Allowed`]).
//! 3. A program is killed whole, with what left its process group or its session, too: when its
//!    time is over, when it writes or multiplies without end, when nobody waits for it any more,
//!    when the server ends; what it left running is killed when it ends. (With a helper that is a
//!    thread, for tests, only its process group is.)
//! 4. It inherits no descriptor, no variable and no signal setting of the server.
//! 5. How many run and wait at a time, their memory and what is kept of their output is limited.
//! 6. A helper that dies takes down the runs it had, each with an error; the next run has a new
//!    one.
//!
//! 7. A program is kept apart from the server by [`Isolation`]: as another user, or under Landlock.
//!    It gains no rights by `execve`, and its working folder is a temporary one of its own.
//!
//! The helper is the server's own program with another first argument; it has one thread, so that
//! starting a program costs as little as it can, whatever the size of the server.

mod allow;
mod apart;
mod error;
mod frame;
mod helper;
mod isolation;
mod kin;
pub mod limits;
mod link;
mod proc;
mod program;
mod spawner;

pub use allow::{Allowed, NotAbsolute};
pub use error::SpawnError;
pub use frame::{NotFrame, fuzz};
pub use helper::serve_as_helper;
pub use isolation::{Isolation, ProgramUser, Reach, can_switch_user, has_landlock};
pub use program::{Ended, How, Output, Program, Stdin, Stdout, output_pipe, pipe};
pub use spawner::{Helper, Spawner, SpawnerOptions};
