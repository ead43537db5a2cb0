// SPDX-License-Identifier: Apache-2.0
// Results of pods' networks, which CNI's library keeps in one place for all runtimes of a machine: which are ours?
import { Buffer } from "node:buffer";
import { join } from "node:path";
import type { Files } from "@patchbay/core/ports";
import { parseFields, textOf } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";

/** Source: CNI library, CacheDir. */
const RESULTS = "/var/lib/cni/results";

/** Whether a result is of a network whose configuration is one of these. Source: CNI library, cachedInfo. */
export function isResultOf(text: string | undefined, configs: readonly string[]): boolean {
  const config = Buffer.from(textOf(parseFields(text), "config"), "base64").toString("utf8");
  return config !== "" && configs.includes(config);
}

/** Removes the results of this machine's default networks; their pods are gone. */
export async function removeCniResults({
  files,
  paths,
}: {
  readonly files: Files;
  readonly paths: Paths;
}): Promise<void> {
  const confs = await files.list(paths.cniConf);
  const texts = await Promise.all(confs.map((name) => files.readText(join(paths.cniConf, name))));
  const configs = texts.filter((text) => text !== undefined);
  for (const name of await files.list(RESULTS)) {
    const path = join(RESULTS, name);
    if (isResultOf(await files.readText(path), configs)) await files.remove(path);
  }
}
