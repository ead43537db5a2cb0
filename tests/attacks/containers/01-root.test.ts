// SPDX-License-Identifier: Apache-2.0
// Tenant pods that try to become root, join foreign groups, or read host files.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { buildLauncherPod } from "../../../packages/control-plane/core/src/vm/pod/launcher-pod.ts";
import { SETTINGS } from "../../../packages/control-plane/core/src/testing/launcher-facts.ts";
import { makeBusyboxImage } from "../../contract/cri/containerd-runtime.ts";
import { PODS, RuntimeMachine } from "../../contract/node-runtime/machine.ts";
import { IMAGES_MS, readOut, scriptPod, findStartFailure } from "./pod-machine.ts";

/** Programs that a container's start could call. */
const PROGRAMS = "umount mount mv setpriv nsenter pivot_root runc sh env";

let machine: RuntimeMachine;
/** A host directory with a file readable by root only. */
let host = "";

beforeAll(async () => {
  host = mkdtempSync("/var/tmp/patchbay-attack-");
  writeFileSync(join(host, "secret"), "root's");
  machine = await RuntimeMachine.start();
}, IMAGES_MS);
afterEach(async () => {
  await machine.clear();
});
afterAll(async () => {
  rmSync(host, { recursive: true });
  await machine.close();
});

test("attack 1: programs that a pod mounts over its image's programs run as the pod's user", async () => {
  const image = names.LAUNCHER_IMAGE;
  const volumes = ["out", "bin"].map((name) => ({ name, emptyDir: {} }));
  const out = { name: "out", mountPath: "/out" };
  // Each program prints the user that called it.
  const write = `for name in ${PROGRAMS}; do
      printf '#!/usr/bin/dash\\n/usr/bin/id -u >>/out/ran\\n' >"/bin2/$name" && chmod 755 "/bin2/$name"
    done; cp /usr/bin/dash /usr/bin/id /bin2/`;
  await machine.create(
    scriptPod("a", "", {
      initContainers: [
        {
          name: "write",
          image,
          command: ["/usr/bin/sh", "-c", write],
          volumeMounts: [out, { name: "bin", mountPath: "/bin2" }],
        },
      ],
      containers: [
        {
          name: "compute",
          image,
          command: ["/usr/bin/umount"],
          volumeMounts: [out, { name: "bin", mountPath: "/usr/bin" }],
        },
      ],
      volumes,
    }),
  );
  expect(await readOut(machine, "a", "ran")).toBe("107\n");
});

/** Returns the API server's message when it rejects the pod. */
async function createOrMessage(pod: object): Promise<string | undefined> {
  const { code, body } = await machine.api.post(PODS, pod);
  return code === 201 ? undefined : JSON.stringify(body);
}

describe.each(["pod", "container"])("in the security context of a %s", (place) => {
  const podWith = (name: string, context: object): object => {
    const pod = scriptPod(name, "id >/out/id") as Pod;
    const { spec } = pod;
    const containers = spec.containers.map((one) => ({ ...one, securityContext: context }));
    return place === "pod"
      ? { ...pod, spec: { ...spec, securityContext: context } }
      : { ...pod, spec: { ...spec, containers } };
  };

  test.each([-1, 0, 2 ** 32 - 1, 2 ** 32, 2 ** 31])(
    "attack 2: rejects user %s with a message",
    async (runAsUser) => {
      const text = await createOrMessage(podWith("user", { runAsUser }));
      expect(text ?? (await findStartFailure(machine, "user"))).toContain("runAsUser");
    },
  );

  test.each([0, 42, -1, 2 ** 32])(
    "attack 3: rejects group %s with a message",
    async (runAsGroup) => {
      const text = await createOrMessage(podWith("group", { runAsUser: 107, runAsGroup }));
      expect(text ?? (await findStartFailure(machine, "group"))).toContain("runAsGroup");
    },
  );
});

test.each([{ fsGroup: 42 }, { supplementalGroups: [42] }, { fsGroup: 0 }])(
  "attack 3: a pod cannot join a system group with %j",
  async (context) => {
    const securityContext = { runAsUser: 107, runAsGroup: 107, ...context };
    const text = await createOrMessage(scriptPod("group", "id -G >/out/id", { securityContext }));
    expect(text ?? (await findStartFailure(machine, "group"))).toContain(Object.keys(context)[0]);
  },
);

test("attack 4: the launcher image as a volume exposes only the image's files", async () => {
  const look = `ls /image/usr/bin/virt-launcher; cat /image${host}/secret; ls -A /image/proc /image/run`;
  const pod = scriptPod("a", `{ ${look}; } >/out/seen 2>/out/errors; true`) as Pod;
  const [container] = pod.spec.containers;
  const reference = names.LAUNCHER_IMAGE;
  const volumeMounts = [...(container?.volumeMounts ?? []), { name: "i", mountPath: "/image" }];
  await machine.create({
    ...pod,
    spec: {
      ...pod.spec,
      containers: [{ ...container, volumeMounts }],
      volumes: [...(pod.spec.volumes ?? []), { name: "i", image: { reference } }],
    },
  });
  const observed = await readOut(machine, "a", "seen");
  expect(observed).toContain("/image/usr/bin/virt-launcher");
  expect(observed).not.toContain("root's");
  expect(await readOut(machine, "a", "errors")).toContain("/secret: No such file or directory");
});

describe("a VM that uses the launcher image as its kernel image", () => {
  function launcherOf(kernelPath: string, supportsImageVolumes: boolean): Pod {
    const vmi = aVmi();
    const container = { image: names.LAUNCHER_IMAGE, kernelPath };
    const domain = { ...vmi.spec.domain, firmware: { kernelBoot: { container } } };
    const settings = { ...SETTINGS, image: names.LAUNCHER_IMAGE, supportsImageVolumes };
    const pod = buildLauncherPod(
      { ...vmi, spec: { domain } },
      {
        ...settings,
        ports: 0,
        claims: new Map(),
        definitions: new Map(),
        bindings: {},
        allowsHooks: false,
      },
    );
    const { ownerReferences, ...metadata } = pod.metadata; // of a missing VMI
    expect(ownerReferences).toHaveLength(1);
    return { ...pod, metadata };
  }

  test.each(["/secret", "/../../../secret"])(
    "attack 5: copies no host file from …%s",
    async (path) => {
      const pod = launcherOf(`${host}${path}`, false);
      await machine.create(pod);
      const { status } = await machine.inPhase(pod.metadata.name, "Failed");
      const [program, kernel] = status?.initContainerStatuses ?? [];
      expect(program?.state.terminated?.exitCode).toBe(0);
      expect(kernel?.state.terminated?.exitCode).toBe(1);
    },
  );

  test("attack 5: finds no host file in the image's volume", async () => {
    const launcher = launcherOf(join(host, "secret"), true);
    const [container] = launcher.spec.containers;
    const look = `cat ${names.KERNEL_BOOT_DIR}${host}/secret; ls ${names.KERNEL_BOOT_DIR}/usr/bin/virt-launcher`;
    const command = ["/bin/sh", "-c", `{ ${look}; } >/tmp/seen 2>&1; true`];
    const volumes = launcher.spec.volumes?.map((each) =>
      each.name === "tmp" ? { ...each, name: "out" } : each,
    );
    const volumeMounts = container?.volumeMounts?.map((each) =>
      each.name === "tmp" ? { ...each, name: "out" } : each,
    );
    const { name } = launcher.metadata;
    await machine.create({
      ...launcher,
      spec: {
        ...launcher.spec,
        containers: [{ ...container, command, volumeMounts }],
        volumes,
      },
    });
    const observed = await readOut(machine, name, "seen");
    expect(observed).toContain("No such file or directory");
    expect(observed).toContain("/usr/bin/virt-launcher");
    expect(observed).not.toContain("root's");
  });
});

describe("an image built to gain root", () => {
  const NUMBER = "4294967296";
  const image = "localhost/tenant/rooted:1";
  const etc = {
    passwd: `evil:x:1000:0::/:/bin/sh\n${NUMBER}:x:0:0::/:/bin/sh\n`,
    group: "root:x:0:evil\ndisk:x:6:evil\nshadow:x:42:evil\n",
  };

  /** A pod that records the user it runs as. */
  const podAs = (securityContext: object): object => {
    const script = "busybox grep -E '^(Uid|Gid|Groups):' /proc/self/status >/out/ids";
    const pod = scriptPod("a", script, { securityContext }) as Pod;
    const containers = pod.spec.containers.map((one) => ({ ...one, image }));
    return { ...pod, spec: { ...pod.spec, containers } };
  };

  beforeAll(async () => {
    const archive = join(host, "image.tar");
    makeBusyboxImage(archive, { name: image, user: NUMBER, etc });
    await machine.containerd.ctr("images", "import", archive);
  });

  test.each([{}, { runAsNonRoot: true }])(
    "attack 92: does not run with %j when the image's user is a name that is a number",
    async (context) => {
      await machine.create(podAs(context));
      expect(await findStartFailure(machine, "a")).toContain(`its image runs as ${NUMBER}`);
    },
  );

  test("attack 93: the image's supplementary groups grant no group, not even root's", async () => {
    await machine.create(podAs({ runAsUser: 1000 }));
    const ids = (await readOut(machine, "a", "ids")).replaceAll(/\s+/g, " ").trim();
    expect(ids).toMatch(/^Uid:( 1000){4} Gid:( 1000){4} Groups: 1000$/);
  });
});
