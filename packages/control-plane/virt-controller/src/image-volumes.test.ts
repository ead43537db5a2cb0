// SPDX-License-Identifier: Apache-2.0
// Detection of image volume support.
import { names, PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { createFakeStore } from "@patchbay/kube/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import { createImageVolumes, type ImageVolumes } from "./image-volumes.ts";

const VOLUME = { name: "kernel-boot", image: { reference: "guest" } };

function podNamed(name: string): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "ns" },
    spec: { containers: [{ name: names.LAUNCHER_CONTAINER, image: "i" }], volumes: [VOLUME] },
  };
}

type Answer = "kept" | "dropped" | AppError;

let answer: Answer;
let asked: string[];
let volumes: ImageVolumes;

beforeEach(() => {
  asked = [];
  answer = "kept";
  const server = createFakeStore();
  const log = createSilentLogger();
  volumes = createImageVolumes({
    log,
    store: {
      create: async (type, object, options) => {
        asked.push(object.metadata.name);
        if (answer instanceof AppError) throw answer;
        const stored = await server.create(type, object, options);
        if (answer === "kept") return stored;
        return { ...stored, spec: { containers: [], volumes: [{ ...VOLUME, image: undefined }] } };
      },
    },
  });
});

const NO_SOURCE = new AppError("KUBE_REFUSED", {
  verb: "create",
  resource: PODS.resource,
  object: "ns/a",
  message: 'Pod "a" is invalid: spec.volumes[0]: Required value: must specify a volume type',
});
const QUOTA = new AppError("KUBE_FORBIDDEN", { message: "exceeded quota" });
const AWAY = new AppError("KUBE_UNREACHABLE", { server: "s", message: "gone" });

describe("areSupported", () => {
  test.each<{ name: string; given: Answer; want: boolean }>([
    { name: "a response with the image volume: supported", given: "kept", want: true },
    {
      name: "a response without the image of the volume: not supported",
      given: "dropped",
      want: false,
    },
    {
      name: "a response that rejects the image volume: not supported",
      given: NO_SOURCE,
      want: false,
    },
  ])("$name, and is cached", async ({ given, want }) => {
    answer = given;
    expect(await volumes.areSupported(podNamed("a"))).toBe(want);
    answer = want ? "dropped" : "kept";
    expect(await volumes.areSupported(podNamed("b"))).toBe(want);
    expect(asked).toEqual(["a"]);
  });

  test("stays unknown if the pod is rejected for another reason, and does not test that pod again", async () => {
    answer = QUOTA;
    expect(await volumes.areSupported(podNamed("a"))).toBe(false);
    answer = "kept";
    expect(await volumes.areSupported(podNamed("a"))).toBe(false);
    expect(await volumes.areSupported(podNamed("b"))).toBe(true);
    expect(await volumes.areSupported(podNamed("a"))).toBe(true);
    expect(asked).toEqual(["a", "b"]);
  });

  test("fails if the server does not respond", async () => {
    answer = AWAY;
    await expect(volumes.areSupported(podNamed("a"))).rejects.toBe(AWAY);
    answer = "kept";
    expect(await volumes.areSupported(podNamed("a"))).toBe(true);
  });

  test("returns false after a stored pod has lost its volume", async () => {
    expect(await volumes.areSupported(podNamed("a"))).toBe(true);
    volumes.reportLost();
    expect(await volumes.areSupported(podNamed("b"))).toBe(false);
    expect(asked).toEqual(["a"]);
  });
});
