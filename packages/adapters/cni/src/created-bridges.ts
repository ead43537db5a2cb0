// SPDX-License-Identifier: Apache-2.0
// Records bridges that CNI plugins create on the node, so that `patchbay down` removes only these bridges.
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { findAbsentBridges, findCreatedBridges, type CreatedBridge } from "@patchbay/core/nics";
import { messageOf, type Logger } from "@patchbay/base";
import type { Cni, Files, Link, NetworkConfigList } from "@patchbay/core/interfaces";
import { wrapCni } from "./plugins.ts";

const SUFFIX = ".json";

function recordDirectory(stateDir: string): string {
  return `${stateDir}/bridges`;
}

export interface BridgeRecorder {
  /**
   * Runs `add`, then records the bridges of `configs` that `add` created, even if `add` failed. If recording fails,
   * only logs the error. `patchbay down` does not remove a bridge that is not recorded, for example after a crash.
   */
  observe<T>(configs: readonly NetworkConfigList[], add: () => Promise<T>): Promise<T>;
}

interface RecorderDeps {
  readonly files: Files;
  readonly log: Logger;
  readonly stateDir: string;
  /** ID of the current boot. Source: /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
  readonly listHostLinks: () => Promise<readonly Link[]>;
}

class FileBridgeRecorder implements BridgeRecorder {
  readonly #deps: RecorderDeps;
  constructor(deps: RecorderDeps) {
    this.#deps = deps;
  }

  async observe<T>(configs: readonly NetworkConfigList[], add: () => Promise<T>): Promise<T> {
    const absentBridges = await this.#runOrLog([], async () =>
      findAbsentBridges(configs, await this.#deps.listHostLinks()),
    );
    try {
      return await add();
    } finally {
      if (absentBridges.length > 0)
        await this.#runOrLog(undefined, () => this.#record(absentBridges));
    }
  }

  async #record(absentBridges: readonly string[]): Promise<void> {
    const { files, log, stateDir, bootId, listHostLinks } = this.#deps;
    const directory = recordDirectory(stateDir);
    for (const bridge of findCreatedBridges(absentBridges, await listHostLinks())) {
      await files.ensureDirectory(directory, 0o700);
      const text = `${JSON.stringify({ ...bridge, bootId })}\n`;
      await files.writeAtomic(`${directory}/${bridge.name}${SUFFIX}`, text, 0o600);
      log.info("a plugin created a bridge", { link: bridge.name, index: bridge.index });
    }
  }

  async #runOrLog<T>(fallback: T, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const reason = messageOf(error);
      this.#deps.log.warn("bridges that plugins create cannot be recorded", { reason });
      return fallback;
    }
  }
}

export function createBridgeRecorder(deps: RecorderDeps): BridgeRecorder {
  return new FileBridgeRecorder(deps);
}

export function recordBridges(cni: Cni, recorder: BridgeRecorder): Cni {
  return wrapCni(cni, {
    add: (request) => recorder.observe([request.config], () => cni.add(request)),
  });
}

function parseRecord(text: string | undefined, bootId: string): readonly CreatedBridge[] {
  const record = text === undefined ? undefined : parseJson(text);
  if (!isJsonObject(record) || record["bootId"] !== bootId) return [];
  const { name, index } = record;
  return typeof name === "string" && typeof index === "number" ? [{ name, index }] : [];
}

/** Lists the bridges that `stateDir` records for the running boot, `bootId`. */
export async function listCreatedBridges(
  files: Files,
  { stateDir, bootId }: Pick<RecorderDeps, "stateDir" | "bootId">,
): Promise<readonly CreatedBridge[]> {
  const directory = recordDirectory(stateDir);
  const names = (await files.list(directory)).filter((name) => name.endsWith(SUFFIX));
  const texts = await Promise.all(names.map((name) => files.readText(`${directory}/${name}`)));
  return texts.flatMap((text) => parseRecord(text, bootId));
}
