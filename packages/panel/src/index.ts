// SPDX-License-Identifier: Apache-2.0
// Locates the files for the browser, which `npm run build` creates.

/** Directory of the files for the browser. `src` and `dist` are siblings, so the relative path is also valid in compiled files. */
export const PANEL_DIRECTORY: string = decodeURIComponent(
  new URL("../dist/web/", import.meta.url).pathname,
);

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

/** Placeholder for the nonce of style sheets in the page. */
export const NONCE_MARK = "{{nonce}}";
