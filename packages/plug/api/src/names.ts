// SPDX-License-Identifier: Apache-2.0
// Names of groups, labels, annotations and finalizers. Constants only.

/** API group of VirtualMachine and its kin. Source: KubeVirt `kubevirt.io/v1`. */
export const KUBEVIRT_GROUP = "kubevirt.io";
/** Aggregated API group of the subresources. Source: KubeVirt `subresources.kubevirt.io/v1`. */
export const SUBRESOURCES_GROUP = "subresources.kubevirt.io";
/** API group of instancetypes and preferences. Source: KubeVirt `instancetype.kubevirt.io/v1beta1`. */
export const INSTANCETYPE_GROUP = "instancetype.kubevirt.io";
/** API group of MigrationPolicy. Source: KubeVirt `migrations.kubevirt.io/v1alpha1`. */
export const MIGRATIONS_GROUP = "migrations.kubevirt.io";
/** API group of VirtualMachinePool, which is refused. Source: KubeVirt `pool.kubevirt.io`. */
export const POOL_GROUP = "pool.kubevirt.io";
/** API group of VirtualMachineExport, which is refused. Source: KubeVirt `export.kubevirt.io`. */
export const EXPORT_GROUP = "export.kubevirt.io";
/** API group of NetworkAttachmentDefinition. Source: NPWG de-facto standard 1.3 section 3. */
export const NAD_GROUP = "k8s.cni.cncf.io";

/** What a pod asks for beside its default network; writer: virt-controller. Source: NPWG 1.3 section 4.1. */
export const NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks";
/** What the pod has; writers: the runtime at creation, then net-agent. Source: NPWG 1.3 section 5. */
export const NETWORK_STATUS_ANNOTATION = "k8s.v1.cni.cncf.io/network-status";
/** What a launcher tells of its NICs by the downward API; writer: virt-controller. Source: KubeVirt NetworkInfoAnnot. */
export const NETWORK_INFO_ANNOTATION = "kubevirt.io/network-info";
/** Which network a pod has in place of every pod's; read when it is created. Source: Multus defaultNetAnnot. */
export const DEFAULT_NETWORK_ANNOTATION = "v1.multus-cni.io/default-network";
/** On a NetworkAttachmentDefinition: of which resource each of its attachments has a device. Source: Multus resourceNameAnnot. */
export const RESOURCE_NAME_ANNOTATION = "k8s.v1.cni.cncf.io/resourceName";
/** On a Service: the network on which VMs have the addresses that it leads to. Source: NPWG multus-service. */
export const SERVICE_NETWORK_ANNOTATION = "k8s.v1.cni.cncf.io/service-network";
/** On a Service that has {@link SERVICE_NETWORK_ANNOTATION} and no selector: labels of the VMIs that it leads to. */
export const SERVICE_SELECTOR_ANNOTATION = "patchbay.io/service-selector";
/** On a VMI: a bridge on the pod network may be migrated. Source: KubeVirt AllowPodBridgeNetworkLiveMigrationAnnotation. */
export const ALLOW_POD_BRIDGE_MIGRATION_ANNOTATION =
  "kubevirt.io/allow-pod-bridge-network-live-migration";
/** Sidecars that change the domain. Source: KubeVirt pkg/hooks HookSidecarListAnnotationName. */
export const HOOK_SIDECARS_ANNOTATION = "hooks.kubevirt.io/hookSidecars";
/** Why attachments fail; writer: net-agent. */
export const ATTACHMENT_ERRORS_ANNOTATION = "patchbay.io/attachment-errors";

/** On a pod of net-agent: when it ends, its node's container runtime is to call it no more; writer: who uninstalls it. */
export const LEAVE_RUNTIME_ANNOTATION = "patchbay.io/leave-runtime";

/** The specification that `patchbay install` wrote last, before changes of operators; writer: `patchbay install`. */
export const LAST_INSTALLED_ANNOTATION = "patchbay.io/last-installed";

/** Where the PCI devices of the last start were, for the next one; writer: virt-controller. */
export const PCIE_TOPOLOGY_ANNOTATION = "patchbay.io/pcie-topology";
/** Which addresses the NICs of the last start had, for the next one; writer: virt-controller. */
export const KEPT_ADDRESSES_ANNOTATION = "patchbay.io/kept-addresses";
/** `"true"`: PCI devices sit on the root complex, and nothing can be plugged. Source: KubeVirt. */
export const ROOT_COMPLEX_ANNOTATION = "kubevirt.io/placePCIDevicesOnRootComplex";

/** Marks pods and objects that belong to a VM. Source: KubeVirt. */
export const KUBEVIRT_LABEL = "kubevirt.io";
/** Value of {@link KUBEVIRT_LABEL} on launcher pods. Source: KubeVirt. */
export const LAUNCHER_LABEL_VALUE = "virt-launcher";
/** uid of the VMI that a launcher pod was made for. Source: KubeVirt. */
export const CREATED_BY_LABEL = "kubevirt.io/created-by";
/** Name of the VM or VMI. Source: KubeVirt. */
export const VM_NAME_LABEL = "vm.kubevirt.io/name";
/** On a VMI: the instancetype of that namespace of which it was made. Source: KubeVirt InstancetypeAnnotation. */
export const INSTANCETYPE_ANNOTATION = "kubevirt.io/instancetype-name";
/** On a VMI: the same of the cluster. Source: KubeVirt ClusterInstancetypeAnnotation. */
export const CLUSTER_INSTANCETYPE_ANNOTATION = "kubevirt.io/cluster-instancetype-name";
/** On a VMI: the preference of that namespace by which it was made. Source: KubeVirt PreferenceAnnotation. */
export const PREFERENCE_ANNOTATION = "kubevirt.io/preference-name";
/** On a VMI: the same of the cluster. Source: KubeVirt ClusterPreferenceAnnotation. */
export const CLUSTER_PREFERENCE_ANNOTATION = "kubevirt.io/cluster-preference-name";
/** On a claim, DataVolume or DataSource: the instancetype of VMs that point to it. Source: KubeVirt DefaultInstancetypeLabel. */
export const DEFAULT_INSTANCETYPE_LABEL = "instancetype.kubevirt.io/default-instancetype";
/** On the same: its kind; the cluster's own when absent. Source: KubeVirt DefaultInstancetypeKindLabel. */
export const DEFAULT_INSTANCETYPE_KIND_LABEL = "instancetype.kubevirt.io/default-instancetype-kind";
/** On the same: the preference. Source: KubeVirt DefaultPreferenceLabel. */
export const DEFAULT_PREFERENCE_LABEL = "instancetype.kubevirt.io/default-preference";
/** On the same: its kind. Source: KubeVirt DefaultPreferenceKindLabel. */
export const DEFAULT_PREFERENCE_KIND_LABEL = "instancetype.kubevirt.io/default-preference-kind";
/** Before the labels of a ControllerRevision that tell of what it is one. Source: KubeVirt api/instancetype register.go. */
export const REVISION_LABEL_PREFIX = "instancetype.kubevirt.io/object-";
/** Name of the VMI as an annotation of its launcher pod. Source: KubeVirt. */
export const DOMAIN_ANNOTATION = "kubevirt.io/domain";
/** Name of the node of a VMI: each virt-handler watches its own only. Source: KubeVirt. */
export const NODE_NAME_LABEL = "kubevirt.io/nodeName";
/** Name of the node that a VMI is about to go to, which watches it as well meanwhile. Source: KubeVirt MigrationTargetNodeNameLabel. */
export const MIGRATION_TARGET_NODE_LABEL = "kubevirt.io/migrationTargetNodeName";
/** On a launcher pod: uid of the migration that it was made for. Source: KubeVirt MigrationJobLabel. */
export const MIGRATION_JOB_LABEL = "kubevirt.io/migrationJobUID";
/** Of a migration that a drain asked for: the node that its guest is to leave. Source: KubeVirt EvacuationMigrationAnnotation. */
export const EVACUATION_ANNOTATION = "kubevirt.io/evacuationMigration";
/** On a launcher pod: the migration's name. Source: KubeVirt MigrationJobNameAnnotation. */
export const MIGRATION_JOB_NAME_ANNOTATION = "kubevirt.io/migrationJobName";
/** On a migration: the name of its VMI. Source: KubeVirt MigrationSelectorLabel. */
export const MIGRATION_VMI_LABEL = "kubevirt.io/vmi-name";

/** Image of all services and agents, unless an installation names another one. */
export const PATCHBAY_IMAGE = "localhost/patchbay/patchbay:dev";
/** Marks what an installation has made, and may change and take away. Source: Kubernetes recommended labels. */
export const PART_OF_LABEL = "app.kubernetes.io/part-of";
/** Value of {@link PART_OF_LABEL}. */
export const PRODUCT = "patchbay";
/** Namespace of the services' accounts and pods. */
export const SERVICES_NAMESPACE = "patchbay";
/** Secret in {@link SERVICES_NAMESPACE} with the authority and the certificate of virt-api, which makes and renews both. */
export const CERTIFICATES_SECRET = "virt-api-certificates";
/** The Secret with what virt-handlers serve with, which virt-api fills and each virt-handler has as files. */
export const HANDLER_CERTIFICATES_SECRET = "virt-handler-certificates";
/** Service of virt-api in {@link SERVICES_NAMESPACE}. */
export const VIRT_API_SERVICE = "virt-api";
/** Name of both configurations of virt-api's webhooks. */
export const WEBHOOKS_NAME = "patchbay";
/** Before a service's name: its account as the API server names it. Source: Kubernetes service accounts. */
export const SERVICE_ACCOUNT_PREFIX = `system:serviceaccount:${SERVICES_NAMESPACE}:`;
/** Before a node's name: group of an account that may only write what is of that node. */
export const NODE_GROUP_PREFIX = "patchbay.io:node:";
/**
 * The group of the certificates that nodes show each other when a guest moves, by which none is taken for another use. The
 * name in one is the node's.
 */
export const RELAY_GROUP = "patchbay.io:migration";

/** Keeps a VMI until its launcher pod is gone; owner: virt-controller. Source: KubeVirt. */
export const VMI_FINALIZER = "foregroundDeleteVirtualMachine";
/** Keeps a migration until nothing is left of it; owner: virt-controller. Source: KubeVirt VirtualMachineInstanceMigrationFinalizer. */
export const MIGRATION_FINALIZER = "kubevirt.io/migrationJobFinalize";

/** Extended resource for `/dev/kvm`. Source: KubeVirt device plugin. */
export const KVM_RESOURCE = "devices.kubevirt.io/kvm";
/** Extended resource for `/dev/net/tun`. Source: KubeVirt device plugin. */
export const TUN_RESOURCE = "devices.kubevirt.io/tun";
/** Extended resource for `/dev/vhost-net`. Source: KubeVirt device plugin. */
export const VHOST_NET_RESOURCE = "devices.kubevirt.io/vhost-net";

/** Extended resource for the directories of all pods, {@link VHOST_USER_DIR}, which who serves their sockets asks for. */
export const VHOST_USER_DATAPLANE_RESOURCE = "vhost-user.patchbay.io/dataplane";
/** Extended resource for a directory of sockets of vhost-user, {@link VHOST_USER_DIR}/ID, that is one pod's. */
export const VHOST_USER_RESOURCE = "vhost-user.patchbay.io/sockets";
/** Where sockets of vhost-user are, under the same path on the node, in launchers and for who serves them. */
export const VHOST_USER_DIR = "/run/patchbay/vhost-user";
/** Of the node alone: below it, under the same ID, what a launcher sees of its directory. No dataplane has it. */
export const VHOST_USER_SHOWN_DIR = "/run/patchbay/vhost-user-shown";

/** The emptyDir volumes of a pod, below the pod's directory of the node. Source: kubelet's layout of volumes. */
export const EMPTY_DIR_VOLUMES = "volumes/kubernetes.io~empty-dir";
/** The emptyDir volume of a launcher pod that holds the sockets of libvirt and of the console. */
export const LAUNCHER_VOLUME = "launcher";
/** Before the number, from 0, of a hook's container in a launcher pod, and of its emptyDir volume. Source: KubeVirt hook-sidecar-N. */
export const HOOK_SIDECAR_PREFIX = "hook-sidecar-";
/** Where the hook's container has that volume, in which it listens. Source: KubeVirt pkg/hooks HookSocketsSharedDirectory. */
export const HOOK_SOCKETS_DIR = "/var/run/kubevirt-hooks";
/** What a launcher's container runs from: libvirt, QEMU and what copies kernels. */
export const LAUNCHER_IMAGE = "localhost/patchbay/virt-launcher:dev";
/** Image of hooks that are programs, which `hack/images/make-images sidecar-shim` makes. */
export const SIDECAR_SHIM_IMAGE = "localhost/patchbay/sidecar-shim:dev";
/** What a sandbox's first container runs from: a program that waits. */
export const PAUSE_IMAGE = "localhost/patchbay/pause:dev";
/** Container of a launcher pod that runs libvirt and the guest. Source: KubeVirt. */
export const LAUNCHER_CONTAINER = "compute";
/** Container of a launcher pod whose log is the guest's console. Source: KubeVirt. */
export const CONSOLE_LOG_CONTAINER = "guest-console-log";
/** Of a pod: the container that kubectl means where none is named. Source: kubectl podutils.DefaultContainerAnnotationName. */
export const DEFAULT_CONTAINER_ANNOTATION = "kubectl.kubernetes.io/default-container";
/** User and group of every launcher. Source: KubeVirt `util.NonRootUID`. */
export const LAUNCHER_UID = 107;
/** Where the launcher volume is mounted in the launcher; also its XDG_RUNTIME_DIR. */
export const LAUNCHER_DIR = "/run/launcher";
/** The libvirt socket below the launcher volume. Source: libvirt `qemu:///session`. */
export const LIBVIRT_SOCKET = "libvirt/libvirt-sock";
/** What the launcher has found in its pod as resolv.conf, in its volume. */
export const LAUNCHER_RESOLVER = "resolv.conf";
/** The serial console's unix socket below the launcher volume. */
export const CONSOLE_SOCKET = "serial0.sock";
/** Where QEMU shows the guest's screen by VNC, below the launcher volume. */
export const VNC_SOCKET = "vnc.sock";
/** Where libvirt listens to the guest's agent, below the launcher volume. */
export const AGENT_SOCKET = "agent.sock";
/** What the guest printed on its serial console, below the launcher volume. */
export const CONSOLE_LOG = "serial0.log";
/** Where the image of `firmware.kernelBoot.container` is mounted in the launcher. */
export const KERNEL_BOOT_DIR = "/run/kernel-boot";
/** Below it, by the volume's name: what a volume of a VM mounts in the launcher. */
export const VOLUMES_DIR = "/run/volumes";
/** Below it, by the volume's name: the device of a claim of mode Block. */
export const BLOCK_VOLUMES_DIR = "/dev/volumes";
/** The emptyDir volume of a launcher pod that is there. */
export const DISKS_VOLUME = "disks";
/** What is made for the guest before its start: overlays, empty disks, small disks. */
export const DISKS_DIR = "/run/disks";
/** What the firmware and the TPM of the guest keep. */
export const STATE_DIR = "/run/state";
