"""The records. The actions of features write them; ``save()`` does no hidden work.

It must not import a feature.
"""

from chat.models.access_reason import AccessKind, AccessReason
from chat.models.artifact import (
    Artifact,
    ArtifactVersion,
    FetchStatus,
    Mockup,
    MockupFile,
    MockupVersion,
)
from chat.models.audit import AuditEvent
from chat.models.change import ChangeKind, ConversationChange
from chat.models.comment import Comment, CommentNotice
from chat.models.comparison import ComparedAnswer, Comparison
from chat.models.context_start import ContextStart, SentContext, StartKind
from chat.models.conversation import (
    BranchChoice,
    Conversation,
    ConversationContext,
    ConversationRole,
    Message,
    Role,
    Visibility,
    visibilities,
)
from chat.models.document import (
    AwaitedDocument,
    Document,
    DocumentKind,
    DocumentPage,
    FileUse,
)
from chat.models.feedback import Feedback, FeedbackKind, FeedbackReason
from chat.models.file import AnswerFile, Attachment, ChosenContent, StoredFile, UnsentFile
from chat.models.file_content import FileContent, NewContent, UnreferencedObject
from chat.models.fork import Fork
from chat.models.identity import (
    GroupRule,
    Identity,
    IdentityProvider,
    ManagedMembership,
    PasswordSetting,
    ProviderSession,
    ProviderSignIn,
    SignInPurpose,
    SignUp,
)
from chat.models.imports import Import, ImportedNames, ImportedSource
from chat.models.installation import CacheEntry, KeyKind, KeyMark
from chat.models.jobs import (
    ACTIVE_JOB_STATUSES,
    Job,
    JobChunk,
    JobKind,
    JobScope,
    JobStatus,
)
from chat.models.mention import Mention
from chat.models.message_queue import QueuedFile, QueuedMessage
from chat.models.model_grant import ModelGrant
from chat.models.organization import Pin
from chat.models.participant import Group, GroupMember, Participant
from chat.models.presence import Draft, Presence, ReadMark
from chat.models.preset import DefaultPreset, Preset, PresetVersion
from chat.models.profile_picture import ProfilePicture
from chat.models.project import (
    Project,
    ProjectAccess,
    ProjectColor,
    ProjectMember,
    ProjectRole,
)
from chat.models.prompt import Prompt, PromptVersion, VariableKind
from chat.models.question import (
    OPEN_STATUSES,
    UNSETTLED_STATUSES,
    Question,
    QuestionKind,
    QuestionStatus,
)
from chat.models.run import (
    Attempt,
    EndedRun,
    RawSegment,
    Run,
    RunInstructions,
    Runner,
    RunPersonalInstructions,
    RunSegment,
    RunStatus,
)
from chat.models.search import SearchKind, SearchRow
from chat.models.session import UserSession
from chat.models.skill import Skill, SkillContent, SkillUpload, SkillVersion
from chat.models.team import Invitation, InvitationUse, Membership, Team, TeamRole
from chat.models.titles import (
    ACTIVE_TITLE_STATUSES,
    TitleReason,
    TitleRequest,
    TitleSetting,
    TitleStatus,
)
from chat.models.token import AccessToken
from chat.models.tool import (
    OWN_KINDS,
    SearchService,
    Tool,
    ToolCredentials,
    ToolKind,
    ToolRequest,
    ToolRule,
    ToolServer,
)
from chat.models.tool_account import ClientSource, OAuthClient, ToolAccount, ToolSignIn
from chat.models.tool_call import (
    CallStatus,
    InputSource,
    InputStatus,
    ToolCall,
    ToolChoice,
    ToolInput,
    ToolRecording,
)
from chat.models.upstream import FavoriteModel, SeenEvent, Upstream
from chat.models.user import (
    Announcements,
    InstructionsUse,
    PersonalInstructions,
    ReadingDensity,
    ReadingSize,
    ReadingWidth,
    User,
)
from chat.models.version import VersionConflict

__all__ = [
    "ACTIVE_JOB_STATUSES",
    "ACTIVE_TITLE_STATUSES",
    "OPEN_STATUSES",
    "OWN_KINDS",
    "UNSETTLED_STATUSES",
    "AccessKind",
    "AccessReason",
    "AccessToken",
    "Announcements",
    "AnswerFile",
    "Artifact",
    "ArtifactVersion",
    "Attachment",
    "Attempt",
    "AuditEvent",
    "AwaitedDocument",
    "BranchChoice",
    "CacheEntry",
    "CallStatus",
    "ChangeKind",
    "ChosenContent",
    "ClientSource",
    "Comment",
    "CommentNotice",
    "ComparedAnswer",
    "Comparison",
    "ContextStart",
    "Conversation",
    "ConversationChange",
    "ConversationContext",
    "ConversationRole",
    "DefaultPreset",
    "Document",
    "DocumentKind",
    "DocumentPage",
    "Draft",
    "EndedRun",
    "FavoriteModel",
    "Feedback",
    "FeedbackKind",
    "FeedbackReason",
    "FetchStatus",
    "FileContent",
    "FileUse",
    "Fork",
    "Group",
    "GroupMember",
    "GroupRule",
    "Identity",
    "IdentityProvider",
    "Import",
    "ImportedNames",
    "ImportedSource",
    "InputSource",
    "InputStatus",
    "InstructionsUse",
    "Invitation",
    "InvitationUse",
    "Job",
    "JobChunk",
    "JobKind",
    "JobScope",
    "JobStatus",
    "KeyKind",
    "KeyMark",
    "ManagedMembership",
    "Membership",
    "Mention",
    "Message",
    "Mockup",
    "MockupFile",
    "MockupVersion",
    "ModelGrant",
    "NewContent",
    "OAuthClient",
    "Participant",
    "PasswordSetting",
    "PersonalInstructions",
    "Pin",
    "Presence",
    "Preset",
    "PresetVersion",
    "ProfilePicture",
    "Project",
    "ProjectAccess",
    "ProjectColor",
    "ProjectMember",
    "ProjectRole",
    "Prompt",
    "PromptVersion",
    "ProviderSession",
    "ProviderSignIn",
    "Question",
    "QuestionKind",
    "QuestionStatus",
    "QueuedFile",
    "QueuedMessage",
    "RawSegment",
    "ReadMark",
    "ReadingDensity",
    "ReadingSize",
    "ReadingWidth",
    "Role",
    "Run",
    "RunInstructions",
    "RunPersonalInstructions",
    "RunSegment",
    "RunStatus",
    "Runner",
    "SearchKind",
    "SearchRow",
    "SearchService",
    "SeenEvent",
    "SentContext",
    "SignInPurpose",
    "SignUp",
    "Skill",
    "SkillContent",
    "SkillUpload",
    "SkillVersion",
    "StartKind",
    "StoredFile",
    "Team",
    "TeamRole",
    "TitleReason",
    "TitleRequest",
    "TitleSetting",
    "TitleStatus",
    "Tool",
    "ToolAccount",
    "ToolCall",
    "ToolChoice",
    "ToolCredentials",
    "ToolInput",
    "ToolKind",
    "ToolRecording",
    "ToolRequest",
    "ToolRule",
    "ToolServer",
    "ToolSignIn",
    "UnreferencedObject",
    "UnsentFile",
    "Upstream",
    "User",
    "UserSession",
    "VariableKind",
    "VersionConflict",
    "Visibility",
    "visibilities",
]
