// SPDX-License-Identifier: Apache-2.0
// Makes and starts one container, with what its variables refer to.
import { join } from "node:path";
import { CONFIG_MAPS, SECRETS, type Container, type Pod } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { SandboxConfig } from "@patchbay/core/ports";
import { containerConfigOf } from "../../translate/container.ts";
import { envReferencesOf, type EnvSources } from "../../translate/environment.ts";
import type { PodDeps } from "../deps.ts";
import type { ImageFacts } from "../facts.ts";
import { podDirectoryOf } from "../paths.ts";
import type { StartContainer } from "../plan.ts";

/** The sandbox that it is made in. */
export interface Home {
  readonly id: string;
  readonly config: SandboxConfig;
  readonly ips: readonly string[];
}

/** One container to make. */
export interface Making {
  readonly pod: Pod;
  readonly container: Container;
  readonly action: StartContainer;
  readonly image: ImageFacts | undefined;
  readonly home: Home;
  readonly volumes: ReadonlyMap<string, string>;
}

async function readSources(deps: PodDeps, pod: Pod, container: Container): Promise<EnvSources> {
  const { namespace = "" } = pod.metadata;
  const names = envReferencesOf(container);
  const configMaps = new Map<string, Readonly<Record<string, string>>>();
  const secrets = new Map<string, Readonly<Record<string, string>>>();
  for (const name of names.configMaps) {
    const found = await deps.store.find(CONFIG_MAPS, { namespace, name });
    if (found !== undefined) configMaps.set(name, found.data ?? {});
  }
  for (const name of names.secrets) {
    const found = await deps.store.find(SECRETS, { namespace, name });
    const texts = Object.entries(found?.data ?? {}).map(
      ([key, value]) => [key, Buffer.from(value, "base64").toString()] as const,
    );
    if (found !== undefined) secrets.set(name, Object.fromEntries(texts));
  }
  return { configMaps, secrets };
}

/** A runtime walks a directory that it is given as a device, and gives the container every device that lies in it. */
async function mustBeDevices(
  deps: PodDeps,
  container: Container,
  paths: readonly string[],
): Promise<void> {
  for (const path of paths) {
    const kind = (await deps.disk.kindOf(path)) ?? "not there";
    if (kind === "BlockDevice" || kind === "CharDevice") continue;
    const reason = `${path} would be its device, and is ${kind}`;
    throw new AppError("RUNTIME_CONTAINER_REFUSED", { container: container.name, reason });
  }
}

/** Makes the container; its id. */
async function make(deps: PodDeps, making: Making): Promise<string | undefined> {
  const { pod, container, action, image, home, volumes } = making;
  if (image?.kind !== "present") return undefined; // planned from these very facts
  const config = containerConfigOf({
    pod,
    container,
    volumes,
    image: image.image,
    attempt: action.attempt,
    ...(action.delaySeconds !== undefined && { delaySeconds: action.delaySeconds }),
    podDirectory: podDirectoryOf(pod.metadata.uid ?? "", deps.node.podsDir),
    node: deps.node,
    podIps: home.ips,
    sources: await readSources(deps, pod, container),
  });
  const devices = config.devices.map(({ hostPath }) => hostPath);
  await mustBeDevices(deps, container, devices);
  const log = join(home.config.logDirectory, config.logPath);
  await deps.files.ensureDirectory(join(log, ".."), 0o700);
  return deps.runtime.createContainer(home.id, config, home.config);
}

/** Makes the container unless it was made before, and starts it. */
export async function makeContainer(deps: PodDeps, making: Making): Promise<void> {
  const id = making.action.createdId ?? (await make(deps, making));
  if (id !== undefined) await deps.runtime.startContainer(id);
}
