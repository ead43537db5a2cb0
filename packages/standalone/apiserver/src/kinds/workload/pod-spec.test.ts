// SPDX-License-Identifier: Apache-2.0
// Which defaults do specifications of pods get, and for which causes are they refused?
import { describe, expect, test } from "vitest";
import { typeShape } from "../../shapes/shape.ts";
import { podSpecCauses } from "./pod-validation.ts";
import { defaultPodOnlyFields, defaultPodSpec } from "./pod-defaults.ts";

function defaulted(container: Readonly<Record<string, unknown>>, more = {}) {
  const containers = [{ name: "c", image: "i", ...container }];
  const spec: Record<string, unknown> = { containers, ...more };
  defaultPodSpec(spec);
  defaultPodOnlyFields(spec);
  return spec;
}

test.each([
  [{ image: "i" }, { imagePullPolicy: "Always" }],
  [{ image: "host:5000/i" }, { imagePullPolicy: "Always" }],
  [{ image: "i:latest" }, { imagePullPolicy: "Always" }],
  [{ image: "i:1" }, { imagePullPolicy: "IfNotPresent" }],
  [{ image: "i@sha256:0" }, { imagePullPolicy: "IfNotPresent" }],
  [
    { securityContext: { privileged: true } },
    {
      resources: {},
      terminationMessagePath: "/dev/termination-log",
      terminationMessagePolicy: "File",
    },
  ],
  [{ ports: [{ containerPort: 1 }] }, { ports: [{ containerPort: 1, protocol: "TCP" }] }],
  [
    { readinessProbe: { httpGet: { port: 1 } } },
    {
      readinessProbe: {
        httpGet: { port: 1, path: "/", scheme: "HTTP" },
        timeoutSeconds: 1,
        periodSeconds: 10,
        successThreshold: 1,
        failureThreshold: 3,
      },
    },
  ],
  [
    { env: [{ name: "E", valueFrom: { fieldRef: { fieldPath: "f" } } }] },
    { env: [{ name: "E", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "f" } } }] },
  ],
  [
    { resources: { limits: { cpu: "1", memory: "1Gi" }, requests: { cpu: "500m" } } },
    {
      resources: {
        limits: { cpu: "1", memory: "1Gi" },
        requests: { cpu: "500m", memory: "1Gi" },
      },
    },
  ],
])("a container with %j gets %j", (given, want) => {
  expect(defaulted(given)["containers"]).toEqual([expect.objectContaining(want)]);
});

test.each([
  [{ emptyDir: {} }, { emptyDir: {} }],
  [{}, { emptyDir: {} }],
  [{ configMap: { name: "m" } }, { configMap: { name: "m", defaultMode: 420 } }],
  [{ hostPath: { path: "/" } }, { hostPath: { path: "/", type: "" } }],
  [
    { projected: { sources: [{ serviceAccountToken: { path: "t" } }] } },
    {
      projected: {
        defaultMode: 420,
        sources: [{ serviceAccountToken: { path: "t", expirationSeconds: 3600 } }],
      },
    },
  ],
])("a volume with %j gets %j", (given, want) => {
  const { volumes } = defaulted({}, { volumes: [{ name: "v", ...given }] });
  expect(volumes).toEqual([{ name: "v", ...want }]);
});

test("sets both fields of the service account name", () => {
  expect(defaulted({}, { serviceAccount: "a" })).toMatchObject({ serviceAccountName: "a" });
  expect(defaulted({}, { serviceAccountName: "a" })).toMatchObject({ serviceAccount: "a" });
  expect(defaulted({})).not.toHaveProperty("serviceAccount");
});

test.each([
  [{ name: "" }, {}, "spec.containers[0].name", "Required"],
  [{ name: "A" }, {}, "spec.containers[0].name", "Invalid"],
  [{ image: "" }, {}, "spec.containers[0].image", "Required"],
  [{ imagePullPolicy: "Often" }, {}, "spec.containers[0].imagePullPolicy", "NotSupported"],
  [{ ports: [{}] }, {}, "spec.containers[0].ports[0].containerPort", "Required"],
  [
    { ports: [{ containerPort: 65_536 }] },
    {},
    "spec.containers[0].ports[0].containerPort",
    "Invalid",
  ],
  [{ ports: [{ containerPort: -1 }] }, {}, "spec.containers[0].ports[0].containerPort", "Invalid"],
  [{ volumeMounts: [{}] }, {}, "spec.containers[0].volumeMounts[0].name", "Required"],
  [{}, { terminationGracePeriodSeconds: -1 }, "spec.terminationGracePeriodSeconds", "Invalid"],
  [{}, { terminationGracePeriodSeconds: 2 ** 31 }, "spec.terminationGracePeriodSeconds", "Invalid"],
  [{}, { activeDeadlineSeconds: 0 }, "spec.activeDeadlineSeconds", "Invalid"],
  [{}, { activeDeadlineSeconds: 2 ** 31 }, "spec.activeDeadlineSeconds", "Invalid"],
  [{ env: [{}] }, {}, "spec.containers[0].env[0].name", "Required"],
  [{ volumeMounts: [{ name: "v" }] }, {}, "spec.containers[0].volumeMounts[0].name", "NotFound"],
  [
    { volumeMounts: [{ name: "v" }] },
    {},
    "spec.containers[0].volumeMounts[0].mountPath",
    "Required",
  ],
  [{}, { containers: [] }, "spec.containers", "Required"],
  [{}, { restartPolicy: "Sometimes" }, "spec.restartPolicy", "NotSupported"],
  [{}, { dnsPolicy: "Host" }, "spec.dnsPolicy", "NotSupported"],
  [{}, { volumes: [{ name: "v" }, { name: "v" }] }, "spec.volumes[1].name", "Duplicate"],
  [{}, { activeDeadlineSeconds: 0 }, "spec.activeDeadlineSeconds", "Invalid"],
  [{}, { terminationGracePeriodSeconds: -1 }, "spec.terminationGracePeriodSeconds", "Invalid"],
])("a container %j in %j is rejected at %s: %s", (...[container, more, field, reason]) => {
  expect(podSpecCauses(defaulted(container, more), "spec")).toContainEqual(
    expect.objectContaining({ field, reason: `FieldValue${reason}` }),
  );
});

test("accepts mounts of volumes that a controller adds", () => {
  const spec = defaulted({ volumeMounts: [{ name: "data", mountPath: "/d" }] });
  expect(podSpecCauses(spec, "spec", ["data"])).toEqual([]);
});

describe("rejection of ambiguous specs", () => {
  function causesOf(container: object, more: object = {}) {
    return podSpecCauses(defaulted({ ...container }, more), "spec").map(
      ({ field = "", message }) => `${field}: ${message}`,
    );
  }
  const claim = { persistentVolumeClaim: { claimName: "c" } };
  const image = { image: { reference: "i" } };
  const reference = { name: "n", key: "k" };
  const fieldRef = { fieldPath: "metadata.name" };
  const one = "may not specify more than 1";
  const single = "may not have more than one field specified at a time";

  test.each<{ name: string; container?: object; volume?: object; want: readonly string[] }>([
    {
      name: "a volume that is a claim and an image",
      volume: { ...image, ...claim },
      want: [`spec.volumes[0].image: Forbidden: ${one} volume type`],
    },
    {
      name: "a volume of three sources",
      volume: { ...image, ...claim, emptyDir: {} },
      want: [
        `spec.volumes[0].persistentVolumeClaim: Forbidden: ${one} volume type`,
        `spec.volumes[0].image: Forbidden: ${one} volume type`,
      ],
    },
    {
      name: "a projected source of two kinds",
      volume: {
        projected: { sources: [{ secret: { name: "s" } }, { secret: {}, configMap: {} }] },
      },
      want: [`spec.volumes[0].projected.sources[1]: Forbidden: ${one} volume type`],
    },
    {
      name: "downward API files with two fields and without a field",
      volume: {
        downwardAPI: {
          items: [{ path: "a", fieldRef, resourceFieldRef: { resource: "r" } }, { path: "b" }],
        },
      },
      want: [
        'spec.volumes[0].downwardAPI.items[0]: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified simultaneously',
        "spec.volumes[0].downwardAPI.items[1]: Required value: one of fieldRef and resourceFieldRef is required",
      ],
    },
    {
      name: "a variable from two places",
      container: { env: [{ name: "E", valueFrom: { fieldRef, secretKeyRef: reference } }] },
      want: [`spec.containers[0].env[0].valueFrom: Invalid value: "": ${single}`],
    },
    {
      name: "a variable with a value and a place",
      container: { env: [{ name: "E", value: "v", valueFrom: { fieldRef } }] },
      want: [
        'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
      ],
    },
    {
      name: "a variable with an empty source",
      container: { env: [{ name: "E", valueFrom: {} }] },
      want: [
        'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`',
      ],
    },
    {
      name: "envFrom entries with two sources and without a source",
      container: { envFrom: [{ configMapRef: {}, secretRef: {} }, { prefix: "P" }] },
      want: [
        `spec.containers[0].envFrom: Invalid value: "": ${single}`,
        'spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
      ],
    },
    {
      name: "a probe with two handlers and a probe without a handler",
      container: { livenessProbe: { exec: {}, tcpSocket: { port: 1 } }, startupProbe: {} },
      want: [
        `spec.containers[0].livenessProbe.tcpSocket: Forbidden: ${one} handler type`,
        "spec.containers[0].startupProbe: Required value: must specify a handler type",
      ],
    },
    {
      name: "a lifecycle hook with two handlers",
      container: { lifecycle: { preStop: { exec: {}, httpGet: { port: 1 } } } },
      want: [`spec.containers[0].lifecycle.preStop.httpGet: Forbidden: ${one} handler type`],
    },
    {
      name: "a volume device without a claim",
      container: { volumeDevices: [{ name: "v", devicePath: "/dev/v" }] },
      volume: image,
      want: [
        'spec.containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode',
      ],
    },
    {
      name: "a claim as files and as a device",
      container: {
        volumeMounts: [{ name: "v", mountPath: "/v" }],
        volumeDevices: [{ name: "v", devicePath: "/dev/v" }],
      },
      volume: claim,
      want: [
        'spec.containers[0].volumeDevices[0].name: Invalid value: "v": must not already exist in volumeMounts',
      ],
    },
    {
      name: "a device of no volume, at no place",
      container: { volumeDevices: [{ name: "w" }] },
      want: [
        'spec.containers[0].volumeDevices[0].name: Not found: "w"',
        "spec.containers[0].volumeDevices[0].devicePath: Required value",
      ],
    },
    {
      name: "each valid variant",
      container: {
        volumeDevices: [{ name: "v", devicePath: "/dev/v" }],
        env: [{ name: "E", valueFrom: { fieldRef } }],
        envFrom: [{ prefix: "P", secretRef: {} }],
        livenessProbe: { exec: {} },
      },
      volume: claim,
      want: [],
    },
  ])("$name", ({ container = {}, volume, want }) => {
    const more = volume === undefined ? {} : { volumes: [{ name: "v", ...volume }] };
    expect(causesOf(container, more)).toEqual(want);
  });

  test("knows each volume source", () => {
    const sources = [...typeShape("core.v1.Volume").fields.keys()].filter((key) => key !== "name");
    const all = Object.fromEntries(sources.map((key) => [key, {}]));
    expect(causesOf({}, { volumes: [{ name: "v", ...all }] })).toHaveLength(sources.length - 1);
  });
});

test("host ports of a host network pod default to its container ports", () => {
  const ports = [{ containerPort: 80 }, { containerPort: 81, hostPort: 8081 }];
  const [container] = defaulted({ ports }, { hostNetwork: true })["containers"] as unknown[];
  expect(container).toMatchObject({ ports: [{ hostPort: 80 }, { hostPort: 8081 }] });
});

test.each([
  { ports: [{ containerPort: 1 }, { containerPort: 65_535 }] },
  { terminationGracePeriodSeconds: 0, activeDeadlineSeconds: 1 },
])("accepts %j", ({ ports, ...more }) => {
  const spec = defaulted(ports === undefined ? {} : { ports }, more);
  expect(podSpecCauses(spec, "spec")).toEqual([]);
});
