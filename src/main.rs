//! The binary: parse the arguments, run, exit.

fn main() -> std::process::ExitCode {
    bizrq::cli::main()
}
