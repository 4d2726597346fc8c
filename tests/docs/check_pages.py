#!/usr/bin/env python3
"""check_pages.py SOURCES OUT: .doxygen/pages.py makes the pages of the site in OUT, and every link of them leads somewhere.

Of a small site that is written here, pages.py finds the links to nothing, and so does check_site.py, which reads made sites.
"""
import os
import subprocess
import sys
import tempfile

sources, out = map(os.path.abspath, sys.argv[1:3])
TOOLS = os.path.join(sources, ".doxygen")
README = """# A title

- one, [a page](docs/page.md#its-heading), [a source](src/a.hpp), [a folder](src), [itself](#a-title)

  in the item

![a picture](docs/p.svg) <a href="docs/p.svg">x</a> `[](code)` [elsewhere](https://example.org)

```cpp file=a.hpp
# no heading [no](link.md)
```
"""
PAGE = "# Its heading\n\n[back](../README.md)\n\n## Its heading\n"
FILES = {"README.md": README, "docs/page.md": PAGE, "docs/p.svg": "<svg/>", "src/a.hpp": "int a;\n",
         ".github/HELP.md": "# Help\n\n[src](../src/a.hpp)\n"}
CONVERTED = {
    "index.md": ["# A title {#a-title}", "(docs/page.md#its-heading)", "(source/src/a.hpp.md)", "(source/src/files.md)", "(#a-title)",
                 "\n    in the item", "(docs/p.svg)", 'href="docs/p.svg"', "`[](code)`", "https://example.org",
                 '```cpp title="a.hpp"\n# no heading [no](link.md)'],
    "docs/page.md": ["# Its heading {#its-heading}", "(../index.md)", "## Its heading {#its-heading-1}"],
    "HELP.md": ["(source/src/a.hpp.md)"],
    "source/src/files.md": ["(a.hpp.md)"],
    "source/src/a.hpp.md": ["```cpp\nint a;\n```"],
    "docs/p.svg": ["<svg/>"],
}
REFUSED = {"[a](gone.md)": "there is no gone.md", "[a](docs/page.md#gone)": "docs/page.md has no heading #gone",
           "[a](#gone)": "the page has no heading #gone", "[](auto i)": "there is no auto i", '<img src="gone.svg">': "there is no gone.svg"}
SITE = {"index.html": '<a href="b.html#x">b</a> <img src="p.svg"> <a href="#here" id="here">', "b.html": '<p id="x"><a href="index.html">',
        "p.svg": ""}
WITHOUT = {"there is no c.html": '<a href="c.html">', "b.html#y has no such anchor": '<a href="b.html#y">',
           "there is no q.svg": '<img src="q.svg">'}
wrong = []


def run(tool, *arguments):
    done = subprocess.run([sys.executable, os.path.join(TOOLS, tool), *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def write(folder, files):
    for name, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def text_of(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def try_pages():
    with tempfile.TemporaryDirectory() as folder:
        root, made = os.path.join(folder, "sources"), os.path.join(folder, "out")
        write(root, FILES)
        run("pages.py", root, made)
        for name, expected in CONVERTED.items():
            text = text_of(os.path.join(made, "pages", name))
            wrong.extend(f"{name}: expected `{each}`, got\n{text}" for each in expected if each not in text)
        for link, sentence in REFUSED.items():
            write(root, {"README.md": README + link + "\n"})
            code, said = run("pages.py", root, made)
            if code == 0 or f"FAILED  README.md: {sentence}\n" not in said:
                wrong.append(f"{link}: expected `{sentence}`, got\n{said}")


def try_site():
    with tempfile.TemporaryDirectory() as folder:
        write(folder, {**SITE, **{f"page{i}.html": "" for i in range(100)}})
        if (found := run("check_site.py", folder))[0] != 0:
            wrong.append(f"expected a site without fault, got\n{found[1]}")
        for sentence, link in WITHOUT.items():
            write(folder, {"b.html": SITE["b.html"] + link})
            code, said = run("check_site.py", folder)
            if code == 0 or sentence not in said:
                wrong.append(f"{link}: expected `{sentence}`, got\n{said}")


try_pages()
try_site()
code, said = run("pages.py", sources, out)
print(said, end="")
print("\n".join(wrong) or f"{len(REFUSED) + len(WITHOUT)} links to nothing are found in small sites")
sys.exit(bool(wrong) or code)
