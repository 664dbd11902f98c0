//! Pieces of SQL that tell the time and the era, for statements that differ by them alone.
//!
//! An era is a stretch in the life of a database in which no commit is lost. On PostgreSQL it ends
//! when another server takes over: system identifier and timeline tell them apart, and the
//! timeline is right at once after a promotion because it is that of the log being written. A
//! SQLite file has one era.

/// The machine's clock, bound as parameter `$n`.
macro_rules! now_sqlite {
    ($n:literal) => {
        concat!("$", $n)
    };
}

/// The server's clock in microseconds; parameter `$n` is NULL.
macro_rules! now_postgres {
    ($n:literal) => {
        concat!(
            "COALESCE(CAST($",
            $n,
            " AS BIGINT), (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT)"
        )
    };
}

/// The era of a SQLite file.
macro_rules! era_sqlite {
    () => {
        "(SELECT era FROM eras)"
    };
}

/// The era of a PostgreSQL database.
macro_rules! era_postgres {
    () => {
        "(SELECT era || '-' || system_identifier::TEXT || '-' || \
         left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM eras, pg_control_system())"
    };
}

pub(crate) use {era_postgres, era_sqlite, now_postgres, now_sqlite};
