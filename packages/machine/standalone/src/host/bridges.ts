// SPDX-License-Identifier: Apache-2.0
// Which bridges of the host did CNI make for this machine? CNI never removes them, so `down` does.
import { isJsonObject } from "@patchbay/api/json";
import { join } from "node:path";
import { NETWORK_ATTACHMENT_DEFINITIONS, type NetworkAttachmentDefinition } from "@patchbay/api";
import { AppError, messageOf } from "@patchbay/core";
import type { KubeClient } from "@patchbay/kube";
import type { Files, Logger, ProcessRunner, Store } from "@patchbay/core/ports";
import { parseFields, readFields, textOf } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";

const TIMEOUT_MS = 10_000;

/** The host, and the notes of this machine on it. */
export interface CleaningDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
  readonly bootId: string;
}

/**
 * The host's links, as `ip -j link` has them.
 * @throws AppError with OS_PROGRAM_FAILED
 */
export async function listLinks(
  runner: ProcessRunner,
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const argv = ["ip", "-j", "link", "show"] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  // Taken for an empty list, a failure would make an administrator's bridges ours, which `down` removes.
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program: "ip", exitCode, stderr: stderr.trim() });
  }
  const links: unknown = JSON.parse(stdout === "" ? "[]" : stdout);
  return Array.isArray(links) ? links.filter(isJsonObject) : [];
}

/** Names that a file of this boot holds; undefined when there is none. */
async function readNames(
  { files, bootId }: Pick<CleaningDeps, "files" | "bootId">,
  file: string,
): Promise<readonly string[] | undefined> {
  const fields = await readFields(files, file);
  const links = fields?.["links"];
  if (textOf(fields, "bootId") !== bootId || !Array.isArray(links)) return undefined;
  return links.filter((name): name is string => typeof name === "string");
}

function hostLinksFile(paths: Paths): string {
  return join(paths.run, "host-links.json");
}

/** Remembers, once in each boot, which links are not ours because they were there before. */
export async function rememberHostLinks(deps: CleaningDeps): Promise<void> {
  const { files, runner, paths, bootId } = deps;
  if ((await readNames(deps, hostLinksFile(paths))) !== undefined) return;
  const links = (await listLinks(runner)).map((link) => textOf(link, "ifname")).sort();
  await files.writeAtomic(hostLinksFile(paths), `${JSON.stringify({ bootId, links })}\n`);
}

/** The bridges that a CNI configuration names. */
function bridgesOfConfig(text: string): readonly string[] {
  const config = parseFields(text);
  const plugins = config?.["plugins"];
  const all: readonly unknown[] = Array.isArray(plugins) ? plugins : [config];
  return (
    all
      .filter(isJsonObject)
      .filter((plugin) => textOf(plugin, "type") === "bridge")
      // Source: CNI plugin bridge, default of `bridge`.
      .map((plugin) => textOf(plugin, "bridge") || "cni0")
  );
}

/** The bridges that networks of this machine have named in this boot, also those of networks that are gone. */
export class OwnBridges {
  readonly #deps: CleaningDeps;
  readonly #file: string;
  #writing: Promise<void> = Promise.resolve();

  constructor(deps: CleaningDeps) {
    this.#deps = deps;
    this.#file = join(deps.paths.run, "bridges.json");
  }

  /** Remembers what each network names, until the returned function is called. */
  watch(client: KubeClient): () => void {
    const reflections = client.reflect(NETWORK_ATTACHMENT_DEFINITIONS);
    const subscription = reflections.subscribe((reflection) => {
      if (reflection.kind === "removed") return;
      const nads = reflection.kind === "listed" ? reflection.objects : [reflection.object];
      void this.#remember(nads).catch((error: unknown) => {
        this.#deps.log.warn("the list of bridges cannot be saved", { reason: messageOf(error) });
      });
    });
    return () => {
      subscription.unsubscribe();
    };
  }

  /** All of them, sorted; without a store those that were remembered. */
  async list(store: Store | undefined): Promise<readonly string[]> {
    const { files, paths, log } = this.#deps;
    try {
      if (store !== undefined) {
        await this.#remember((await store.list(NETWORK_ATTACHMENT_DEFINITIONS)).items);
      }
    } catch (error) {
      log.warn("networks cannot be listed", { reason: messageOf(error) });
    }
    const configs = await Promise.all(
      (await files.list(paths.cniConf)).map((name) => files.readText(join(paths.cniConf, name))),
    );
    const ofConfigs = configs.flatMap((text) => bridgesOfConfig(text ?? ""));
    return [...new Set([...ofConfigs, ...(await this.#read())])].sort();
  }

  async #read(): Promise<readonly string[]> {
    return (await readNames(this.#deps, this.#file)) ?? [];
  }

  /** One at a time: each adds to what the one before has written. */
  #remember(nads: readonly NetworkAttachmentDefinition[]): Promise<void> {
    const named = nads.flatMap((nad) => bridgesOfConfig(nad.spec?.config ?? ""));
    const write = async (): Promise<void> => {
      const { files, runner, bootId } = this.#deps;
      const known = await this.#read();
      const unknown = named.filter((name) => !known.includes(name));
      if (unknown.length === 0) return;
      // A bridge that exists before its first network was made by an administrator, because ADD needs the network.
      const existing = (await listLinks(runner)).map((link) => textOf(link, "ifname"));
      const made = unknown.filter((name) => !existing.includes(name));
      const links = [...new Set([...known, ...made])].sort();
      if (links.length === known.length) return;
      await files.writeAtomic(this.#file, `${JSON.stringify({ bootId, links })}\n`);
    };
    this.#writing = this.#writing.then(write, write);
    return this.#writing;
  }
}

/** Removes the bridges that came in this boot and have no port any more. */
export async function removeBridges(deps: CleaningDeps, bridges: readonly string[]): Promise<void> {
  const { runner, paths, log } = deps;
  const before = await readNames(deps, hostLinksFile(paths));
  if (before === undefined) return;
  const links = await listLinks(runner);
  const isThere = (name: string): boolean => links.some((link) => textOf(link, "ifname") === name);
  const hasPort = (name: string): boolean => links.some((link) => textOf(link, "master") === name);
  const ours = bridges.filter((name) => isThere(name) && !hasPort(name) && !before.includes(name));
  for (const name of ours) {
    const argv = ["ip", "link", "del", name, "type", "bridge"] as const;
    await runner.run({ argv, timeoutMs: TIMEOUT_MS });
    log.info("bridge removed", { link: name });
  }
}
