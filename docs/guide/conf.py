# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the guide. tools/guide.sh builds it from a copy of this folder, with `root` as a link to the
repository and the generated pages in `reference`."""

project = "cep"
author = "the authors of cep"
version = release = "0.1.0"

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
# The guide opens from a disk without a network: system fonts, and no script from elsewhere.
html_theme_options = {
    "light_css_variables": {"font-stack": "system-ui, sans-serif", "font-stack--monospace": "ui-monospace, monospace"},
    "dark_css_variables": {"font-stack": "system-ui, sans-serif", "font-stack--monospace": "ui-monospace, monospace"},
}
pygments_style = "default"
pygments_dark_style = "monokai"
highlight_language = "none"


def setup(app):
    from pygments.lexers import RustLexer

    app.add_lexer("rust,no_run", RustLexer)  # the name that rustdoc knows
