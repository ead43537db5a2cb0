// SPDX-License-Identifier: Apache-2.0
// What is there of the pod with this uid?
import { join } from "node:path";
import type { Pod } from "@patchbay/api";
import type { Sandbox } from "@patchbay/ports";
import { BY_UID, type Deps } from "../../deps.ts";
import { findImage, type Image } from "../../images.ts";
import { observeContainer } from "../../pod/containers.ts";
import type { ContainerFacts, PodFacts } from "../../pod/facts.ts";
import { pathsOf, type PodPaths } from "../../pod/paths.ts";
import { readRecord } from "../../pod/record.ts";
import { findNetns } from "../../pod/sandbox.ts";

function imagesNamedBy(pod: Pod): readonly string[] {
  const volumes = pod.spec.volumes ?? [];
  return [
    ...pod.spec.containers.map(({ image }) => image),
    ...volumes.flatMap(({ image }) => (image === undefined ? [] : [image.reference])),
  ];
}

async function findImages(deps: Deps, named: readonly string[]): Promise<Map<string, Image>> {
  const images = new Map<string, Image>();
  for (const name of named) {
    const image = await findImage(deps.files, deps.directories.images, name);
    if (image !== undefined) images.set(name, image);
  }
  return images;
}

async function hasSandbox(deps: Deps, paths: PodPaths): Promise<boolean> {
  const text = await deps.files.readText(paths.sandboxFile);
  // Written by the runtime itself, as a whole.
  const sandbox = text === undefined ? undefined : (JSON.parse(text) as Sandbox);
  return sandbox !== undefined && sandbox.netnsInode === findNetns(deps, paths);
}

async function observeContainers(
  deps: Deps,
  pod: Pod,
  paths: PodPaths,
): Promise<readonly ContainerFacts[]> {
  const facts: ContainerFacts[] = [];
  for (const container of pod.spec.containers) {
    const bundle = join(paths.containers, container.name);
    const state = await observeContainer(deps, pod.metadata.uid ?? "", bundle);
    facts.push({ container, state });
  }
  return facts;
}

/** Reads the facts of one uid. */
export async function observe(uid: string, deps: Deps): Promise<PodFacts> {
  const [pod] = deps.pods.listBy(BY_UID, uid);
  const paths = pathsOf(uid, deps.directories);
  const record = await readRecord(deps.files, paths.record);
  const named = pod === undefined ? [] : imagesNamedBy(pod);
  const images = await findImages(deps, named);
  return {
    uid,
    paths,
    pod,
    record,
    isRecordCurrent: record?.bootId === deps.bootId,
    hasSandbox: record?.result !== undefined && (await hasSandbox(deps, paths)),
    images,
    missingImages: [...new Set(named)].filter((name) => !images.has(name)).sort(),
    containers: pod === undefined ? [] : await observeContainers(deps, pod, paths),
    hasRemains:
      (await deps.files.exists(paths.state)) || (await deps.files.exists(paths.directory)),
  };
}
