//! The engine as a whole: promises P8 and P9 on simulated clocks and disks.

mod crashes;
mod jobs;
mod projection;
mod world;
