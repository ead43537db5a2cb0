// SPDX-License-Identifier: Apache-2.0
// The files of the page, read once: what is not among them is not there, whatever a path says.
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/core/ports";
import { NONCE_MARK, PANEL_DIRECTORY, PANEL_FILES } from "@patchbay/panel";

/** A file as a browser gets it. */
export interface PanelFile {
  readonly type: string;
  /** Its text, with the nonce of the answer where it has styles of its own. */
  render(nonce: string): string;
}

/**
 * All files, by path.
 * @throws AppError with PANEL_NOT_BUILT where one is missing
 */
export async function readPage(
  files: Pick<Files, "readText">,
  directory: string = PANEL_DIRECTORY,
): Promise<ReadonlyMap<string, PanelFile>> {
  const read = async ([path, { file, type }]: (typeof ENTRIES)[number]) => {
    const text = await files.readText(`${directory}${file}`);
    if (text === undefined) throw new AppError("PANEL_NOT_BUILT", { path: `${directory}${file}` });
    const render = (nonce: string): string => text.replaceAll(NONCE_MARK, nonce);
    return [path, { type, render }] as const;
  };
  return new Map(await Promise.all(ENTRIES.map(read)));
}

const ENTRIES = Object.entries(PANEL_FILES);
