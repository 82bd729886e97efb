# Short names for `cargo xtask`; nothing else is needed. Pass arguments with ARGS: make run ARGS=--yes
.PHONY: run test test-clients check tidy bench

run:
	@cargo xtask run $(ARGS)

test:
	@cargo xtask test $(ARGS)

test-clients:
	@cargo xtask test-clients

check:
	@cargo xtask check

tidy:
	@cargo xtask tidy

bench:
	@cargo xtask bench $(ARGS)
