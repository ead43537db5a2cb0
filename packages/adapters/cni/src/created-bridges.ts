// SPDX-License-Identifier: Apache-2.0
// Bridges that plugins were observed to create on this node, in files: `patchbay down` removes these and no others.
import { isJsonObject, parseJson } from "@patchbay/api";
import {
  findAbsentBridges,
  findCreatedBridges,
  messageOf,
  type CreatedBridge,
} from "@patchbay/core";
import type { Cni, Files, Link, Logger, NetworkConfigList } from "@patchbay/core/ports";
import { wrapCni } from "./wrap-cni.ts";

const SUFFIX = ".json";

function directoryIn(stateDir: string): string {
  return `${stateDir}/bridges`;
}

/** Observes ADDs of one program. */
export interface BridgeRecorder {
  /**
   * Runs `add`, whose plugins have these configurations, and records the bridges that did not exist before and exist
   * afterwards, also when `add` fails. A record that fails is logged, and does not fail `add`. A process that dies in
   * between records nothing: a bridge whose creation was not observed stays on the node.
   */
  observe<T>(configs: readonly NetworkConfigList[], add: () => Promise<T>): Promise<T>;
}

interface RecorderDeps {
  readonly files: Files;
  readonly log: Logger;
  /** Absolute path. */
  readonly stateDir: string;
  /** Source: /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
  readonly listHostLinks: () => Promise<readonly Link[]>;
}

class FileBridgeRecorder implements BridgeRecorder {
  readonly #deps: RecorderDeps;
  constructor(deps: RecorderDeps) {
    this.#deps = deps;
  }

  async observe<T>(configs: readonly NetworkConfigList[], add: () => Promise<T>): Promise<T> {
    const absent = await this.#logged([], async () =>
      findAbsentBridges(configs, await this.#deps.listHostLinks()),
    );
    try {
      return await add();
    } finally {
      if (absent.length > 0) await this.#logged(undefined, () => this.#record(absent));
    }
  }

  async #record(absent: readonly string[]): Promise<void> {
    const { files, log, stateDir, bootId, listHostLinks } = this.#deps;
    const directory = directoryIn(stateDir);
    for (const bridge of findCreatedBridges(absent, await listHostLinks())) {
      await files.ensureDirectory(directory, 0o700);
      const text = `${JSON.stringify({ ...bridge, bootId })}\n`;
      await files.writeAtomic(`${directory}/${bridge.name}${SUFFIX}`, text, 0o600);
      log.info("a plugin created a bridge", { link: bridge.name, index: bridge.index });
    }
  }

  async #logged<T>(otherwise: T, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const reason = messageOf(error);
      this.#deps.log.warn("bridges that plugins create cannot be recorded", { reason });
      return otherwise;
    }
  }
}

/** Keeps the records below the state directory, which no other process writes. */
export function createBridgeRecorder(deps: RecorderDeps): BridgeRecorder {
  return new FileBridgeRecorder(deps);
}

/** The same plugins, whose ADDs are observed. */
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

/** What a program with that state directory has recorded since the machine was started. */
export async function listCreatedBridges(
  files: Files,
  { stateDir, bootId }: Pick<RecorderDeps, "stateDir" | "bootId">,
): Promise<readonly CreatedBridge[]> {
  const directory = directoryIn(stateDir);
  const names = (await files.list(directory)).filter((name) => name.endsWith(SUFFIX));
  const texts = await Promise.all(names.map((name) => files.readText(`${directory}/${name}`)));
  return texts.flatMap((text) => parseRecord(text, bootId));
}
