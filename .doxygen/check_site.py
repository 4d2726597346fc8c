#!/usr/bin/env python3
"""check_site.py FOLDER: opens every link of a made site: the file is there, and in it the anchor. Links to other hosts are counted."""
import html.parser
import os
import sys
import urllib.parse

FEWEST = 100  # pages, those of the reference among them


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        for key in ("id", "name"):
            if attributes.get(key) and (key == "id" or tag == "a"):
                self.anchors.add(attributes[key])
        for key in ("href", "src"):
            if key in attributes and tag != "base":
                self.links.append(attributes[key] or "")


def main():
    site = os.path.abspath(sys.argv[1])
    pages = {os.path.join(where, name): None for where, _, names in os.walk(site) for name in names if name.endswith(".html")}
    for path in pages:
        pages[path] = Page(path)
    wrong, links, elsewhere = set(), 0, 0
    for path, page in pages.items():
        here = os.path.relpath(path, site)
        for link in page.links:
            at = urllib.parse.urlsplit(link)
            if at.scheme or at.netloc:
                elsewhere += at.scheme in ("http", "https")
                continue
            links += 1
            file = urllib.parse.unquote(at.path)
            base = site if file.startswith("/") else os.path.dirname(path)
            target = os.path.normpath(os.path.join(base, file.lstrip("/"))) if file else path
            if os.path.isdir(target):
                target = os.path.join(target, "index.html")
            if not os.path.exists(target):
                wrong.add(f"{here}: there is no {link}")
            elif at.fragment and target in pages and urllib.parse.unquote(at.fragment) not in pages[target].anchors:
                wrong.add(f"{here}: {link} has no such anchor")
    for sentence in sorted(wrong)[:50]:
        print("FAILED  " + sentence)
    print(f"{len(pages)} pages, {links} links within the site, {len(wrong)} of them to nothing; {elsewhere} to other sites")
    if len(pages) < FEWEST:
        print(f"FAILED  expected {FEWEST} pages at least, got {len(pages)}")
    return 1 if wrong or len(pages) < FEWEST else 0


if __name__ == "__main__":
    sys.exit(main())
