# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the guide. tools/guide.sh builds it from a copy of this folder, with `root` as a link to the
repository and the generated pages in `reference`."""

import pathlib
import re

project = "cep"
author = "the authors of cep"
_build = (pathlib.Path(__file__).parent / "root" / "meson.build").read_text()
version = release = re.search(r"^ *version: '([^']*)'", _build, re.MULTILINE)[1]

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["root"]
nitpicky = False

html_theme = "furo"
html_title = "cep, the CUDA Event Profiler"
html_static_path = ["static"]
html_css_files = ["guide.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
html_show_search_summary = False  # it would fetch the pages, which a page from a disk may not
# The guide opens from a disk without a network: system fonts, and no script from elsewhere.
fonts = {"font-stack": "system-ui, sans-serif", "font-stack--monospace": "ui-monospace, monospace"}
# The theme's own dark colours. Debian's build of its style lacks them for a system that is set to dark; given here, they
# hold there too.
dark_colours = {
    "color-problematic": "#ee5151",
    "color-foreground-primary": "#ffffffcc",
    "color-foreground-secondary": "#9ca0a5",
    "color-foreground-muted": "#81868d",
    "color-foreground-border": "#666666",
    "color-background-primary": "#131416",
    "color-background-secondary": "#1a1c1e",
    "color-background-hover": "#1e2124ff",
    "color-background-hover--transparent": "#1e212400",
    "color-background-border": "#303335",
    "color-background-item": "#444",
    "color-announcement-background": "#000000dd",
    "color-announcement-text": "#eeebee",
    "color-brand-primary": "#2b8cee",
    "color-brand-content": "#368ce2",
    "color-highlighted-background": "#083563",
    "color-guilabel-background": "#08356380",
    "color-guilabel-border": "#13395f80",
    "color-api-keyword": "var(--color-foreground-secondary)",
    "color-highlight-on-target": "#333300",
    "color-admonition-background": "#18181a",
    "color-card-border": "var(--color-background-secondary)",
    "color-card-background": "#18181a",
    "color-card-marginals-background": "var(--color-background-hover)",
}
html_theme_options = {"light_css_variables": fonts, "dark_css_variables": fonts | dark_colours}
pygments_style = "default"
pygments_dark_style = "native"
highlight_language = "none"


def setup(app):
    from pygments.lexers import RustLexer

    app.add_lexer("rust,no_run", RustLexer)  # the name that rustdoc knows
