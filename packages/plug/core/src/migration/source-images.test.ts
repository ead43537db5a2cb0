// SPDX-License-Identifier: Apache-2.0
// With which images is a target's pod made?
import type { Container, ContainerStatus, Pod } from "@patchbay/api";
import { aPod } from "@patchbay/support";
import { expect, test } from "vitest";
import { withImagesOf } from "./source-images.ts";

const DIGEST = `sha256:${"0a".repeat(32)}`;

function podWith(container: Container, imageID?: string): Pod {
  const pod = aPod();
  const { name } = container;
  const told: readonly ContainerStatus[] =
    imageID === undefined
      ? []
      : [{ name, image: "", imageID, ready: true, restartCount: 0, state: {} }];
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: container.name === "compute" ? [container] : [],
      initContainers: [container],
    },
    status: { ...pod.status, initContainerStatuses: told },
  };
}

test.each<{
  name: string;
  container?: Partial<Container>;
  source?: string;
  imageID?: string;
  want: string;
}>([
  { name: "a tag", imageID: `r.example/disk@${DIGEST}`, want: `r.example:5000/disk@${DIGEST}` },
  {
    name: "a runtime that says how it was pulled",
    imageID: `docker-pullable://r.example/disk@${DIGEST}`,
    want: `r.example:5000/disk@${DIGEST}`,
  },
  {
    name: "no tag",
    container: { image: "r.example:5000/disk" },
    source: "r.example:5000/disk",
    imageID: `r.example/disk@${DIGEST}`,
    want: `r.example:5000/disk@${DIGEST}`,
  },
  { name: "an image that no registry has", imageID: DIGEST, want: "r.example:5000/disk:1" },
  { name: "nothing that is told", want: "r.example:5000/disk:1" },
  {
    name: "a node that may not ask a registry",
    container: { imagePullPolicy: "Never" },
    imageID: `r.example/disk@${DIGEST}`,
    want: "r.example:5000/disk:1",
  },
  {
    name: "a digest that was given",
    container: { image: `r.example/disk@${DIGEST}` },
    source: `r.example/disk@${DIGEST}`,
    imageID: `r.example/disk@sha256:${"1b".repeat(32)}`,
    want: `r.example/disk@${DIGEST}`,
  },
  {
    name: "another image than the source's",
    source: "r.example:5000/other:1",
    imageID: `r.example/disk@${DIGEST}`,
    want: "r.example:5000/disk:1",
  },
  {
    name: "a source that was a target itself",
    source: `r.example:5000/disk@${DIGEST}`,
    imageID: `r.example/disk@${DIGEST}`,
    want: `r.example:5000/disk@${DIGEST}`,
  },
  {
    name: "the launcher's own",
    container: { name: "compute" },
    imageID: `r.example/disk@${DIGEST}`,
    want: "r.example:5000/disk:1",
  },
])("$name", ({ container = {}, source, imageID, want }) => {
  const made: Container = { name: "disk", image: "r.example:5000/disk:1", ...container };
  const { image } = made;
  const from = podWith({ ...made, image: source ?? image }, imageID);
  const { initContainers = [] } = withImagesOf(podWith(made), from).spec;
  expect(initContainers.map((each) => each.image)).toEqual([want]);
});
