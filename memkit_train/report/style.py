"""How every page looks: readable on a phone, light or dark as the reader has it."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark}*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #8886}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .55rem;text-align:right;white-space:nowrap;border-bottom:1px solid #8883}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:Canvas}
.words th,.words td{text-align:left;white-space:normal;position:static;vertical-align:top;overflow-wrap:anywhere}
small{opacity:.7}svg{width:100%;height:auto;font-size:12px;fill:currentColor}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1rem;font-size:.85rem;margin:.2rem 0}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
details{margin:.5rem 0;padding:.5rem .7rem;border:1px solid #8885;border-radius:.4rem}summary{cursor:pointer}
.bad{color:#dc2626}.good{color:#059669}ol{padding-left:1.2rem;margin:.3rem 0}
"""
