// SPDX-License-Identifier: Apache-2.0
#include "report/style.hpp"

namespace cep::report {

// Categories: Okabe and Ito, "Color Universal Design" (2008), told apart by colour-blind readers.
std::string_view page_style() {
    return R"css(
:root{color-scheme:light;--ground:#fff;--panel:#f6f7f9;--ink:#1b1f24;--muted:#59636e;--line:#d4d9df;--accent:#0969da;
--bad:#c4320a;--warn:#9a6700;--missing:#c9ced6;--good:#0072b2;--wait:#b9bfc8;--comm:#6e7781;--rest:#e3e6ea;
--on-c0:#fff;--c0:#0072b2;--c1:#e69f00;--c2:#009e73;--c3:#cc79a7;--c4:#56b4e9;--c5:#d55e00;--c6:#f0e442;--c7:#999}
@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;--ground:#14171b;--panel:#1d2126;
--ink:#e7eaee;--muted:#9aa4af;--line:#343b43;--accent:#58a6ff;--bad:#ff8a5c;--warn:#e3b341;--missing:#3d444d;--good:#56b4e9;
--wait:#59626d;--comm:#8b949e;--rest:#2b3138;--on-c0:#000;--c0:#3a94d6}}
@media screen{:root[data-theme=dark]{color-scheme:dark;--ground:#14171b;--panel:#1d2126;--ink:#e7eaee;--muted:#9aa4af;--line:#343b43;
--accent:#58a6ff;--bad:#ff8a5c;--warn:#e3b341;--missing:#3d444d;--good:#56b4e9;--wait:#59626d;--comm:#8b949e;--rest:#2b3138;--on-c0:#000;--c0:#3a94d6}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:66rem;background:var(--ground);color:var(--ink);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}
a{color:var(--accent)}
header p{margin:.1rem 0;color:var(--muted)}
header .damage{color:var(--warn)}
h1{padding-right:5rem;font-size:1rem;margin:0;color:var(--muted);font-weight:600}
h2{font-size:1.25rem;margin:0 0 .25rem}
h3{font-size:1rem;margin:.75rem 0 .25rem}
section{margin:2.5rem 0;scroll-margin-top:1rem}
nav{margin:1rem 0;font-size:.9rem}
nav a{display:inline-block;margin-right:1rem}
.headline{font-size:1.5rem;line-height:1.3;font-weight:650;margin:.5rem 0;padding-left:.8rem;border-left:.35rem solid var(--good)}
.headline.warn{border-color:var(--warn)}
.headline.bad{border-color:var(--bad)}
.findings ul{margin:.25rem 0;padding-left:1.2rem}
.look{margin:0 0 .75rem;max-width:48rem}
.empty{padding:.6rem .8rem;background:var(--panel);border-radius:.4rem;color:var(--muted)}
figure{margin:0 0 1.25rem}
figcaption,.rest,.notes,footer{color:var(--muted);font-size:.875rem}
.scroll{overflow-x:auto}
figure.static svg{display:block;width:100%;min-width:44rem;height:auto;background:var(--ground)}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.75rem 0;font-size:.925rem}
dl.facts dt{color:var(--muted)}
dl.facts dd{margin:0;grid-column:2;min-width:0}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.4rem 0}
th,td{padding:.2rem .4rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--muted);font-weight:600}
th[title]{text-decoration:underline dotted;text-underline-offset:.2em}
th.left,td.left{text-align:left}
details{margin:.5rem 0}
summary{cursor:pointer;color:var(--accent)}
.defs{position:absolute;width:0;height:0}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
svg .tick{fill:var(--muted);font-size:11.5px}
svg .axis{fill:var(--muted)}
svg .label,svg .title{font-size:13px}
svg .title{font-weight:600}
svg .tick.bad{fill:var(--bad);font-weight:600}
svg .grid{stroke:var(--line);stroke-width:1;fill:none}
svg .zero,svg .end{stroke:var(--ink);stroke-width:1.5;fill:none}
svg .frame{fill:none;stroke:var(--line)}
svg .hatch{fill:url(#hatch)}
svg .pixels{image-rendering:pixelated}
svg .blame{fill:var(--bad)}
svg .max{fill:none;stroke:var(--muted);stroke-width:.8;opacity:.9}
svg .median{fill:none;stroke-width:2}
svg .band{opacity:.35}
svg .line-step{stroke:var(--ink)}
svg .band.step{fill:var(--muted)}
svg .change{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:5 4;fill:none}
svg .mark{stroke:var(--accent);stroke-width:1.5}
svg .join{fill:none;stroke:var(--ink);stroke-width:.8;opacity:.55;stroke-dasharray:2 2}
svg .dot{fill:var(--accent);fill-opacity:.55;stroke:var(--ground);stroke-width:.5}
svg .dot.bad{fill:var(--bad);fill-opacity:1}
svg .dot.slower{fill:var(--bad);fill-opacity:1}
svg .dot.faster{fill:var(--good);fill-opacity:1}
svg .dot.same{fill:var(--muted);fill-opacity:1}
svg .interval{stroke-width:3;fill:none}
svg .interval.slower{stroke:var(--bad)}
svg .interval.faster{stroke:var(--good)}
svg .interval.same{stroke:var(--muted)}
svg .part{stroke:var(--ground);stroke-width:.5}
svg .wait{fill:url(#hatch)}
svg .comm{fill:var(--comm)}
svg .rest,svg .others{fill:var(--rest)}
svg .others{fill:var(--wait)}
svg .whole{fill:var(--comm)}
svg .loss{fill:var(--bad)}
svg .gain,svg .ideal{fill:var(--good)}
svg .c0,.line-c0{fill:var(--c0)}svg .c1{fill:var(--c1)}svg .c2{fill:var(--c2)}svg .c3{fill:var(--c3)}
svg .c4{fill:var(--c4)}svg .c5{fill:var(--c5)}svg .c6{fill:var(--c6)}svg .c7{fill:var(--c7)}
svg .median.line-c0{fill:none;stroke:var(--c0)}svg .line-c1{stroke:var(--c1)}svg .line-c2{stroke:var(--c2)}
svg .line-c3{stroke:var(--c3)}svg .line-c4{stroke:var(--c4)}svg .line-c5{stroke:var(--c5)}svg .line-c6{stroke:var(--c6)}
svg .line-c7{stroke:var(--c7)}
svg [class^=on-c]{fill:#000;font-size:11px}
svg .on-c0{fill:var(--on-c0)}
svg .on-comm{fill:var(--ground);font-size:11px}svg .on-wait,svg .on-rest,svg .on-others{font-size:11px}
.hatch-line{stroke:var(--missing);stroke-width:3}
.hatch-ground{fill:var(--panel)}
@media screen and (min-width:68rem){.scroll:has(table){width:max-content;min-width:100%;max-width:calc(50vw + 30rem)}}
@media(max-width:40rem){body{padding:1rem .75rem 3rem}.headline{font-size:1.2rem}dl.facts{grid-template-columns:1fr}
dl.facts dd{grid-column:1;margin-bottom:.3rem}}
@media print{:root{color-scheme:light}body{max-width:none;padding:0;font-size:11pt}nav,summary{display:none}
section{break-inside:avoid-page;margin:1.2rem 0}figure.static svg{min-width:0}a{color:inherit;text-decoration:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";
}

}  // namespace cep::report
