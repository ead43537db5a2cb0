// SPDX-License-Identifier: Apache-2.0
// The form of a pod, as far as clients need it. Source: Kubernetes core/v1 Pod.
import type { Fields } from "../objects/json.ts";
import {
  BOOLEAN,
  CONDITIONS,
  FREE,
  INTEGER,
  INTEGER_OR_TEXT,
  TEXT,
  TEXTS_BY_NAME,
  listOfObjects,
  listShape,
  objectShape,
} from "./shapes.ts";

const QUANTITIES: Fields = { type: "object", additionalProperties: INTEGER_OR_TEXT };

const CONTAINER: Fields = {
  name: TEXT,
  image: TEXT,
  command: listShape(TEXT),
  args: listShape(TEXT),
  workingDir: TEXT,
  env: listOfObjects({ name: TEXT, value: TEXT, valueFrom: FREE }),
  envFrom: listOfObjects({}),
  ports: listOfObjects({ name: TEXT, containerPort: INTEGER, hostPort: INTEGER, protocol: TEXT }),
  resources: objectShape({ limits: QUANTITIES, requests: QUANTITIES }),
  volumeMounts: listOfObjects({ name: TEXT, mountPath: TEXT, readOnly: BOOLEAN, subPath: TEXT }),
  imagePullPolicy: TEXT,
  securityContext: FREE,
  livenessProbe: FREE,
  readinessProbe: FREE,
  startupProbe: FREE,
  lifecycle: FREE,
  stdin: BOOLEAN,
  tty: BOOLEAN,
  terminationMessagePath: TEXT,
  terminationMessagePolicy: TEXT,
};

const SPEC: Fields = {
  containers: { ...listOfObjects(CONTAINER), description: "Containers of the pod." },
  initContainers: listOfObjects(CONTAINER),
  volumes: listOfObjects({
    name: TEXT,
    emptyDir: FREE,
    configMap: FREE,
    secret: FREE,
    hostPath: FREE,
  }),
  nodeName: TEXT,
  nodeSelector: TEXTS_BY_NAME,
  restartPolicy: TEXT,
  terminationGracePeriodSeconds: INTEGER,
  activeDeadlineSeconds: INTEGER,
  dnsPolicy: TEXT,
  serviceAccountName: TEXT,
  serviceAccount: TEXT,
  automountServiceAccountToken: BOOLEAN,
  hostNetwork: BOOLEAN,
  hostPID: BOOLEAN,
  hostIPC: BOOLEAN,
  hostname: TEXT,
  subdomain: TEXT,
  schedulerName: TEXT,
  priorityClassName: TEXT,
  priority: INTEGER,
  securityContext: FREE,
  affinity: FREE,
  tolerations: listOfObjects({ key: TEXT, operator: TEXT, value: TEXT, effect: TEXT }),
  imagePullSecrets: listOfObjects({ name: TEXT }),
  enableServiceLinks: BOOLEAN,
};

const CONTAINER_STATUSES: Fields = listOfObjects({
  name: TEXT,
  image: TEXT,
  imageID: TEXT,
  containerID: TEXT,
  ready: BOOLEAN,
  started: BOOLEAN,
  restartCount: INTEGER,
  state: FREE,
  lastState: FREE,
});

const STATUS: Fields = {
  phase: TEXT,
  reason: TEXT,
  message: TEXT,
  hostIP: TEXT,
  podIP: TEXT,
  podIPs: listOfObjects({ ip: TEXT }),
  startTime: TEXT,
  qosClass: TEXT,
  nominatedNodeName: TEXT,
  conditions: CONDITIONS,
  containerStatuses: CONTAINER_STATUSES,
  initContainerStatuses: CONTAINER_STATUSES,
};

/** The form of a pod. */
export const POD_SHAPE: Fields = objectShape(
  {
    spec: objectShape(SPEC, "What the pod runs."),
    status: objectShape(STATUS, "What is known of the pod."),
  },
  "Pod is a collection of containers that can run on a host.",
);
