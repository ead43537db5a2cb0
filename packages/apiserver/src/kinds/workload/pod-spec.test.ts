// SPDX-License-Identifier: Apache-2.0
// Which defaults do specifications of pods get, and for which causes are they refused?
import { expect, test } from "vitest";
import { podSpecCauses } from "./pod-causes.ts";
import { defaultOwnSpec, defaultPodSpec } from "./pod-defaults.ts";

function defaulted(container: Readonly<Record<string, unknown>>, more = {}) {
  const containers = [{ name: "c", image: "i", ...container }];
  const spec: Record<string, unknown> = { containers, ...more };
  defaultPodSpec(spec);
  defaultOwnSpec(spec);
  return spec;
}

test.each([
  [{ image: "i" }, { imagePullPolicy: "Always" }],
  [{ image: "host:5000/i" }, { imagePullPolicy: "Always" }],
  [{ image: "i:latest" }, { imagePullPolicy: "Always" }],
  [{ image: "i:1" }, { imagePullPolicy: "IfNotPresent" }],
  [{ image: "i@sha256:0" }, { imagePullPolicy: "IfNotPresent" }],
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

test("both names of the service account are kept", () => {
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
    { ports: [{ containerPort: 70_000 }] },
    {},
    "spec.containers[0].ports[0].containerPort",
    "Invalid",
  ],
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
])("a container %j in %j is refused at %s: %s", (...[container, more, field, reason]) => {
  expect(podSpecCauses(defaulted(container, more), "spec")).toContainEqual(
    expect.objectContaining({ field, reason: `FieldValue${reason}` }),
  );
});

test("volumes that a controller adds are known", () => {
  const spec = defaulted({ volumeMounts: [{ name: "data", mountPath: "/d" }] });
  expect(podSpecCauses(spec, "spec", ["data"])).toEqual([]);
});
