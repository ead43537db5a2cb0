// SPDX-License-Identifier: Apache-2.0
// Which images does the target's pod run? Those that the source's pod runs, also where a tag has come to mean another one since: a guest
// would find another disk, or other files. Pure. Source: KubeVirt pkg/container-disk, ExtractImageIDsFromSourcePod.
import { names, type Container, type Pod } from "@patchbay/api";

/** As a runtime tells which image of a registry a container runs; what was brought to a node by hand has no such name. */
const WITH_DIGEST = /^(?:[a-z-]+:\/\/)?[^\s@]+@(sha256:[0-9a-f]{64})$/;
/** What follows a repository: a tag, which is behind the last slash (a colon before it is a port's), or a digest. */
const VERSION = /(?::[^:/@]+)?(?:@[^@]+)?$/;

function digestOf(imageId: string): string | undefined {
  return WITH_DIGEST.exec(imageId)?.[1];
}

function repositoryOf({ image }: Container): string {
  return image.replace(VERSION, "");
}

/** Where a node may not ask a registry, it has the image by the name that is given alone. */
function isGiven({ image, imagePullPolicy }: Container): boolean {
  return imagePullPolicy === "Never" || image.includes("@");
}

/** Containers of both kinds, or what is told of them. */
function both<T>(some: readonly T[] = [], others: readonly T[] = []): readonly T[] {
  return [...some, ...others];
}

/** The container with the very image that the source's of the same name runs, which may be a target's itself. */
function pin(container: Container, { spec, status }: Pod): Container {
  const { name } = container;
  const repository = repositoryOf(container);
  const made = both(spec.containers, spec.initContainers);
  const isSame = made.some((each) => each.name === name && repositoryOf(each) === repository);
  const told = both(status?.containerStatuses, status?.initContainerStatuses);
  const digest = digestOf(told.find((each) => each.name === name)?.imageID ?? "");
  if (!isSame || digest === undefined || isGiven(container)) return container;
  return { ...container, image: `${repository}@${digest}` };
}

/**
 * A pod that is made for a guest which comes from that one. What runs the launcher's own image stays as it is asked for: by it is decided
 * to which version of a launcher a guest goes.
 */
export function withImagesOf(pod: Pod, source: Pod): Pod {
  const own = pod.spec.containers.find(({ name }) => name === names.LAUNCHER_CONTAINER)?.image;
  const pinned = (container: Container): Container =>
    container.image === own ? container : pin(container, source);
  const { initContainers } = pod.spec;
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: pod.spec.containers.map(pinned),
      ...(initContainers === undefined ? {} : { initContainers: initContainers.map(pinned) }),
    },
  };
}
