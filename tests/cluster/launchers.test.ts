// SPDX-License-Identifier: Apache-2.0
// Launcher resources beside NICs on a real cluster: hooks beside the guest, and a socket directory from a device
// plugin.
import { eventually, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BOOT_MS, CHANGE_MS, Room } from "./cluster.ts";

const MARKED = "marked";
const SPEAKER = "speaker";
const MAKER = "Radical Edward";
const SCRIPTS = "hooks";
/** Image of hack/images/make-images sidecar-shim, pullable by the cluster's nodes. */
const SHIM = process.env["PATCHBAY_SIDECAR_SHIM_IMAGE"] ?? "localhost/patchbay/sidecar-shim:dev";

/** KubeVirt's example of a hook as a shell script. */
const MARKS = `#!/bin/sh
printf '%s' "$4" | sed -e 's|</os>|<smbios mode="sysinfo"/></os><sysinfo type="smbios"><baseBoard><entry name="manufacturer">${MAKER}</entry></baseBoard></sysinfo>|'
`;

interface Manifest {
  readonly spec: {
    readonly template: { readonly spec: { readonly domain: Record<string, unknown> } };
  };
}

function marked(): unknown {
  const configMap = { name: SCRIPTS, key: "marks.sh", hookPath: "/usr/bin/onDefineDomain" };
  const hook = { image: SHIM, args: ["--version", "v1alpha3"], configMap };
  const annotations = { "hooks.kubevirt.io/hookSidecars": JSON.stringify([hook]) };
  return vmManifest({ name: MARKED, annotations });
}

/** Prepared for vhost-user NICs, without one yet. */
function speaker(): unknown {
  const manifest = vmManifest({ name: SPEAKER }) as Manifest; // built by tests/support
  manifest.spec.template.spec.domain["resources"] = {
    limits: { "vhost-user.patchbay.io/sockets": "1" },
  };
  return manifest;
}

describe("on the named cluster", () => {
  const room = new Room();
  let restore = (): void => undefined;

  beforeAll(async () => {
    restore = room.allow("Sidecar");
    room.open(
      {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: SCRIPTS },
        data: { "marks.sh": MARKS },
      },
      marked(),
      speaker(),
    );
    await room.booted(MARKED);
    await room.booted(SPEAKER);
  }, BOOT_MS);

  afterAll(() => {
    try {
      room.close();
    } finally {
      restore();
    }
  }, BOOT_MS);

  test("a guest has the domain that its hook returns", () => {
    const started = room.inLauncher(MARKED, "sh", "-c", "cat /proc/[0-9]*/cmdline");
    expect(started).toContain(`manufacturer=${MAKER}`);
  });

  test("its pod ends after the guest, although the hook keeps running", async () => {
    const { name } = room.launcher(MARKED).metadata;
    room.patchbay("stop", MARKED);
    await eventually(
      () => room.kubectl("get", "pod", name, "--ignore-not-found", "-o", "name") === "",
      { withinMs: CHANGE_MS },
    );
  });

  test("a launcher that requests sockets has a read-only directory for them", () => {
    const path = "/run/patchbay/vhost-user";
    const [directory = "none"] = room.inLauncher(SPEAKER, "ls", path).split("\n");
    expect(directory).toMatch(/^sockets-\d+$/);
    expect(room.inLauncher(SPEAKER, "ls", "-A", `${path}/${directory}`)).toBe("");
    expect(() => room.inLauncher(SPEAKER, "touch", `${path}/${directory}/x`)).toThrow();
  });
});
