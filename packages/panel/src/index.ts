// SPDX-License-Identifier: Apache-2.0
// Where are the files that a browser loads? `npm run build` makes them.

/** Directory of the bundle; the same from the source and from what is built. */
export const PANEL_DIRECTORY: string = decodeURIComponent(
  new URL("../dist/web/", import.meta.url).pathname,
);

/** Its files by the paths under which they are asked for, with their types. */
export const PANEL_FILES: Readonly<
  Record<string, { readonly file: string; readonly type: string }>
> = {
  "/": { file: "index.html", type: "text/html; charset=utf-8" },
  "/panel.css": { file: "panel.css", type: "text/css; charset=utf-8" },
  "/panel.js": { file: "panel.js", type: "text/javascript; charset=utf-8" },
  "/console.js": { file: "console.js", type: "text/javascript; charset=utf-8" },
  "/screen.js": { file: "screen.js", type: "text/javascript; charset=utf-8" },
  "/licences.txt": { file: "licences.txt", type: "text/plain; charset=utf-8" },
};

/** In the page: stands for the nonce of its style sheets. */
export const NONCE_MARK = "{{nonce}}";
