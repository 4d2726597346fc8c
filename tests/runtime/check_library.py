"""check_library.py NM LIBRARY: the runtime runs nothing before main, so that loading a library of kernels can neither throw nor depend on an order."""
import subprocess
import sys

nm, library = sys.argv[1:]
symbols = subprocess.run([nm, "--demangle", library], check=True, capture_output=True, text=True).stdout.splitlines()
if not any("attune::detail::call(" in line for line in symbols):
    sys.exit(f"{library}: expected attune's runtime, got a library without attune::detail::call")
constructors = [line for line in symbols if "_GLOBAL__sub_I" in line or "__cxx_global_var_init" in line or "__static_initialization" in line]
if constructors:
    sys.exit(f"{library}: expected no global constructors, got\n" + "\n".join(constructors))
print(f"{len(symbols)} symbols, none of them a global constructor")
