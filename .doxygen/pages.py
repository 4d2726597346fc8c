#!/usr/bin/env python3
"""pages.py SOURCES OUT: the pages of the docs as MkDocs takes them, in OUT/pages, and OUT/mkdocs.yml, which .doxygen/site builds.

README.md becomes the first page, pages of .github move to the root, and all others keep their paths. A link to a source or a folder leads
to a copy under `source`. Headings have the anchors that forges give them. Links to nothing are printed, and the program ends with 1.
"""
import fnmatch
import html
import json
import os
import re
import shutil
import subprocess
import sys

PAGES = [  # in this order; a page that is not named comes last
    ("", ["README.md", "examples/TUTORIAL.md"]),
    ("Formulas", [f"dsl/docs/{name}.md" for name in ("language", "words", "catalogue", "from_other_systems", "gradients", "shards")]),
    ("Kernels", [f"generators/docs/{name}.md" for name in ("architecture", "plans", "kernels/prefill", "kernels/decode", "kernels/gradient", "blocks", "element_types", "schedules", "tuning")]),
    ("Calls", [f"runtime/docs/{name}.md" for name in ("calls", "threads", "serving", "scale_out", "linking", "python", "devices")]),
    ("Evidence", ["tests/benchmarks/results.md", "runtime/docs/robustness.md", "tests/peers/flexattention.md"]),
    ("Project", [".github/CONTRIBUTING.md", ".github/SECURITY.md", "CHANGELOG.md", "runtime/docs/upgrading.md"]),
]
LEFT_OUT = {".github/PULL_REQUEST_TEMPLATE.md": "a form", "runtime/python/NOTICES.md": "the licences of the wheel's parts"}
PICTURES = (".svg", ".png")
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".json": "json", ".txt": "text", ".cmake": "cmake",
             ".md": "markdown", ".abi": "xml", "": "text"}
LARGEST = 200_000  # bytes of a source that is shown

FENCE = re.compile(r"^(```+)(\w*)([^\n]*)\n(.*?)^\1$", re.M | re.S)
HEADING = re.compile(r"^(#+) (.*)$", re.M)
# `code`, or a link: ](target#anchor), or HTML's href="..." and src="..."
LINK = re.compile(r"(?P<code>`[^`]*`)|(?<!\\)\]\((?P<target>[^)#\n]*)(?:#(?P<anchor>[^)\s]*))?\)|(?P<of>href|src)=\"(?P<html>[^\"#]+)\"")


def anchor_of(heading):
    """The anchor of a heading, as forges make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def anchors_of(text):
    """Those of a page, in its order; the second of one name ends in -1."""
    seen, anchors = {}, []
    for _, heading in HEADING.findall(FENCE.sub("", text)):
        anchor = anchor_of(heading)
        anchors.append(anchor + (f"-{seen[anchor]}" if anchor in seen else ""))
        seen[anchor] = seen.get(anchor, 0) + 1
    return anchors


def listed(sources, *patterns):
    """The files of the sources, or those that fit: as git knows them, or of an archive all that are no build."""
    found = subprocess.run(["git", "-C", sources, "ls-files", *patterns], capture_output=True, text=True, check=False).stdout.splitlines()
    if found:
        return found
    every = sorted(os.path.relpath(os.path.join(where, name), sources) for where, _, names in os.walk(sources) for name in names)
    patterns = [pattern + "*" if pattern.endswith("/") else pattern for pattern in patterns]
    return [path for path in every if "build" not in path.split(os.sep) and any(fnmatch.fnmatch(path, pattern) for pattern in patterns)]


def place_of(page):
    """Where a page lies in the site."""
    return "index.md" if page == "README.md" else page.removeprefix(".github/")


class Site:
    def __init__(self, sources, out):
        self.sources, self.out = sources, os.path.join(out, "pages")
        pages = [page for page in listed(sources, "*.md") if page not in LEFT_OUT]
        named = [page for _, group in PAGES for page in group]
        self.more = [page for page in pages if page not in named]
        self.pages = [page for page in named if page in pages] + self.more
        self.wrong = [f"expected the page {page}, which .doxygen/pages.py names, got none" for page in named if page not in pages]
        self.shown, self.links, self.copied = {}, 0, set()  # sources that have a page, by path
        self.text = {page: self.read(page) for page in self.pages}

    def read(self, path):
        with open(os.path.join(self.sources, path), encoding="utf-8") as file:
            return file.read()

    def write(self, place, text):
        path = os.path.join(self.out, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def copy(self, path, place):
        target = os.path.join(self.out, place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(self.sources, path), target)
        self.copied.add(place)

    def show(self, path):
        """The place of a copy of a source or of a folder's list."""
        path = path.rstrip("/")
        if path in self.shown:
            return self.shown[path]
        full, place = os.path.join(self.sources, path), "source/" + path
        ending = os.path.splitext(path)[1]
        if os.path.isdir(full):
            self.shown[path] = place + "/files.md"
            lines = [f"- [{name}]({self.relative(self.show(file), self.shown[path])})" for file in listed(self.sources, path + "/")
                     for name in [os.path.relpath(file, path)] if not file.endswith(PICTURES)]
            self.write(self.shown[path], f"# {path}\n\n" + "\n".join(lines) + "\n")
        elif ending not in LANGUAGES or os.path.getsize(full) > LARGEST:
            self.shown[path] = place
            self.copy(path, place)
        else:
            self.shown[path] = place + ".md"
            text = self.read(path).rstrip("\n")
            fence = "`" * (3 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
            self.write(self.shown[path], f"# {os.path.basename(path)}\n\n`{path}`\n\n{fence}{LANGUAGES[ending]}\n{text}\n{fence}\n")
        return self.shown[path]

    @staticmethod
    def relative(place, of):
        return os.path.relpath(place, os.path.dirname(of) or ".")

    def resolve(self, page, target, anchor):
        """The link of a page of the site for one of a page of the sources."""
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        self.links += 1
        if not os.path.exists(os.path.join(self.sources, path)):
            self.wrong.append(f"{page}: there is no {target}")
            return target
        if path in self.text:
            if anchor and anchor not in anchors_of(self.text[path]):
                self.wrong.append(f"{page}: {target or 'the page'} has no heading #{anchor}")
            place = place_of(path)
        elif path.endswith(PICTURES):
            place = path
            self.copy(path, path)
        else:
            place = self.show(path)
        return (self.relative(place, place_of(page)) if target else "") + (f"#{anchor}" if anchor else "")

    def converted(self, page):
        def link(match):
            target = match["target"] if match["of"] is None else match["html"]
            if match["code"] or "://" in (target or "") or target is None:
                return match[0]
            found = self.resolve(page, html.unescape(target), match["anchor"])
            return f'{match["of"]}="{found}"' if match["of"] else f"]({found})"

        anchors = iter(anchors_of(self.text[page]))

        def prose(text):
            text = re.sub(r"^  (?=\S)", "    ", text, flags=re.M)  # within an item of a list MkDocs wants four spaces
            return HEADING.sub(lambda match: f"{match[0]} {{#{next(anchors)}}}", LINK.sub(link, text))

        parts, at, text = [], 0, self.text[page]
        for match in FENCE.finditer(text):
            parts.append(prose(text[at:match.start()]))
            named = re.search(r"file=(\S+)", match[3])
            parts.append(f"{match[1]}{match[2] or 'text'}" + (f' title="{named[1]}"' if named else "") + f"\n{match[4]}{match[1]}")
            at = match.end()
        return "".join(parts) + prose(text[at:])

    def make(self):
        shutil.rmtree(self.out, ignore_errors=True)
        for page in self.pages:
            self.write(place_of(page), self.converted(page))
        nav = []
        for title, group in [*PAGES, ("More", self.more)]:
            places = [place_of(page) for page in group if page in self.pages]
            nav += [{title: places}] if title and places else places
        return nav + [{"Reference of the headers": "api/files.html"}]


def configuration(nav, out):
    """mkdocs.yml, as JSON, which is YAML. No font and no script is fetched from elsewhere."""
    return {
        "site_name": "attune",
        "site_description": "Attention variants as formulas, compiled ahead of time",
        "docs_dir": os.path.join(out, "pages"),
        "use_directory_urls": False,  # so that the site can be read from a folder
        "theme": {"name": "material", "font": False,
                  "features": ["navigation.sections", "navigation.top", "content.code.copy", "search.highlight"],
                  "palette": [{"media": f"(prefers-color-scheme: {media})", "scheme": scheme, "primary": "indigo"}
                              for media, scheme in (("light", "default"), ("dark", "slate"))]},
        "plugins": ["search"],
        "markdown_extensions": ["attr_list", "tables", "md_in_html", {"toc": {"permalink": True, "toc_depth": "2-3"}},
                                "pymdownx.superfences", {"pymdownx.highlight": {"anchor_linenums": False, "use_pygments": True}}],
        "validation": {"nav": {"not_found": "ignore", "omitted_files": "ignore"},
                       "links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "ignore"}},
        "strict": True,
        "nav": nav,
    }


def main():
    sources, out = map(os.path.abspath, sys.argv[1:3])
    site = Site(sources, out)
    nav = site.make()
    with open(os.path.join(out, "mkdocs.yml"), "w", encoding="utf-8") as file:
        json.dump(configuration(nav, out), file, indent=1)
    print(f"{len(site.pages)} pages, {site.links} links; {len(site.shown)} sources and folders, {len(site.copied)} pictures and files beside them")
    for sentence in site.wrong:
        print("FAILED  " + sentence)
    return 1 if site.wrong or not site.links else 0


if __name__ == "__main__":
    sys.exit(main())
