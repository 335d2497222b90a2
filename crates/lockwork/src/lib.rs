//! Lockwork.
