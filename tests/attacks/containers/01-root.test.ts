// SPDX-License-Identifier: Apache-2.0
// Can a tenant's pod become root, be of a group that it was not given, or read files of the host?
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { names, type Pod } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { buildLauncherPod } from "../../../packages/control-plane/core/src/vm/pod/launcher-pod.ts";
import { SETTINGS } from "../../../packages/control-plane/core/src/testing/launcher-facts.ts";
import { makeBusyboxImage } from "../../contract/cri/containerd-runtime.ts";
import { PODS, RuntimeMachine } from "../../contract/node-runtime/machine.ts";
import { IMAGES_MS, readOut, scriptPod, whyNot } from "./pod-machine.ts";

/** Programs that a container's start could call. */
const PROGRAMS = "umount mount mv setpriv nsenter pivot_root runc sh env";

let machine: RuntimeMachine;
/** A directory of the host with a file of root's. */
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

test("attack 1: programs that a pod mounts over those of its image run as its user alone", async () => {
  const image = names.LAUNCHER_IMAGE;
  const volumes = ["out", "bin"].map((name) => ({ name, emptyDir: {} }));
  const out = { name: "out", mountPath: "/out" };
  // Each says as whom it was called.
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

/** Whether the API server takes the pod; what it says if not. */
async function createOrWords(pod: object): Promise<string | undefined> {
  const { code, body } = await machine.api.post(PODS, pod);
  return code === 201 ? undefined : JSON.stringify(body);
}

describe.each(["pod", "container"])("in the security context of a %s", (place) => {
  const podWith = (name: string, context: object): object => {
    const pod = scriptPod(name, "id >/out/id") as Pod; // as it was built
    const { spec } = pod;
    const containers = spec.containers.map((one) => ({ ...one, securityContext: context }));
    return place === "pod"
      ? { ...pod, spec: { ...spec, securityContext: context } }
      : { ...pod, spec: { ...spec, containers } };
  };

  test.each([-1, 0, 2 ** 32 - 1, 2 ** 32, 2 ** 31])(
    "attack 2: user %s is refused in words",
    async (runAsUser) => {
      const words = await createOrWords(podWith("user", { runAsUser }));
      expect(words ?? (await whyNot(machine, "user"))).toContain("runAsUser");
    },
  );

  test.each([0, 42, -1, 2 ** 32])("attack 3: group %s is refused in words", async (runAsGroup) => {
    const words = await createOrWords(podWith("group", { runAsUser: 107, runAsGroup }));
    expect(words ?? (await whyNot(machine, "group"))).toContain("runAsGroup");
  });
});

test.each([{ fsGroup: 42 }, { supplementalGroups: [42] }, { fsGroup: 0 }])(
  "attack 3: a pod is of no group of the system's by %j",
  async (context) => {
    const securityContext = { runAsUser: 107, runAsGroup: 107, ...context };
    const words = await createOrWords(scriptPod("group", "id -G >/out/id", { securityContext }));
    expect(words ?? (await whyNot(machine, "group"))).toContain(Object.keys(context)[0]);
  },
);

test("attack 4: the launcher's image as a volume shows the image, and nothing of the host", async () => {
  const look = `ls /image/usr/bin/virt-launcher; cat /image${host}/secret; ls -A /image/proc /image/run`;
  const pod = scriptPod("a", `{ ${look}; } >/out/seen 2>/out/errors; true`) as Pod; // as it was built
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
  const seen = await readOut(machine, "a", "seen");
  expect(seen).toContain("/image/usr/bin/virt-launcher");
  expect(seen).not.toContain("root's");
  expect(await readOut(machine, "a", "errors")).toContain("/secret: No such file or directory");
});

describe("a VM whose kernel's image is the launcher's", () => {
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
    const { ownerReferences, ...metadata } = pod.metadata; // of a VMI that is not there
    expect(ownerReferences).toHaveLength(1);
    return { ...pod, metadata };
  }

  test.each(["/secret", "/../../../secret"])(
    "attack 5: copies no file of the host at …%s",
    async (path) => {
      const pod = launcherOf(`${host}${path}`, false);
      await machine.create(pod);
      const { status } = await machine.inPhase(pod.metadata.name, "Failed");
      const [program, kernel] = status?.initContainerStatuses ?? [];
      expect(program?.state.terminated?.exitCode).toBe(0);
      expect(kernel?.state.terminated?.exitCode).toBe(1);
    },
  );

  test("attack 5: finds no file of the host in the image's volume", async () => {
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
    const seen = await readOut(machine, name, "seen");
    expect(seen).toContain("No such file or directory");
    expect(seen).toContain("/usr/bin/virt-launcher");
    expect(seen).not.toContain("root's");
  });
});

describe("an image that was made to be root", () => {
  const NUMBER = "4294967296";
  const image = "localhost/tenant/rooted:1";
  const etc = {
    passwd: `evil:x:1000:0::/:/bin/sh\n${NUMBER}:x:0:0::/:/bin/sh\n`,
    group: "root:x:0:evil\ndisk:x:6:evil\nshadow:x:42:evil\n",
  };

  /** A pod that writes down as whom it runs. */
  const podAs = (securityContext: object): object => {
    const script = "busybox grep -E '^(Uid|Gid|Groups):' /proc/self/status >/out/ids";
    const pod = scriptPod("a", script, { securityContext }) as Pod; // as it was built
    const containers = pod.spec.containers.map((one) => ({ ...one, image }));
    return { ...pod, spec: { ...pod.spec, containers } };
  };

  beforeAll(async () => {
    const archive = join(host, "image.tar");
    makeBusyboxImage(archive, { name: image, user: NUMBER, etc });
    await machine.containerd.ctr("images", "import", archive);
  });

  test.each([{}, { runAsNonRoot: true }])(
    "attack 92: by a user whose name is a number does not run with %j",
    async (context) => {
      await machine.create(podAs(context));
      expect(await whyNot(machine, "a")).toContain(`its image runs as ${NUMBER}`);
    },
  );

  test("attack 93: by its groups gives none of them, nor root's", async () => {
    await machine.create(podAs({ runAsUser: 1000 }));
    const ids = (await readOut(machine, "a", "ids")).replaceAll(/\s+/g, " ").trim();
    expect(ids).toMatch(/^Uid:( 1000){4} Gid:( 1000){4} Groups: 1000$/);
  });
});
